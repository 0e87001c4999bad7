import { once } from "node:events";
import { createServer } from "node:net";
import { connect } from "node:tls";

/** What a real TLS client sends first. */
export async function recordHello(serverName: string | null): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const name = serverName === null ? {} : { servername: serverName };
  const client = connect({ host: "127.0.0.1", port, ...name }).on("error", () => undefined);
  const [socket] = await once(server, "connection");
  const [bytes] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** A ClientHello in one record, of these extensions and nothing else of interest. */
export function makeHello(extensions: { type: number; content: Buffer }[]): Buffer {
  const list = Buffer.concat(
    extensions.map(({ type, content }) => Buffer.concat([number(type, 2), vector(content, 2)])),
  );
  const body = Buffer.concat([
    number(0x0303, 2),
    Buffer.alloc(32),
    vector(Buffer.alloc(0), 1),
    vector(number(0x1301, 2), 2),
    vector(number(0, 1), 1),
    vector(list, 2),
  ]);
  return record(Buffer.concat([number(1, 1), vector(body, 3)]));
}

export function record(content: Buffer): Buffer {
  return Buffer.concat([number(22, 1), number(0x0301, 2), vector(content, 2)]);
}

export function serverName(...names: string[]): { type: number; content: Buffer } {
  const list = Buffer.concat(names.map((name) => Buffer.concat([number(0, 1), vector(Buffer.from(name), 2)])));
  return { type: 0, content: vector(list, 2) };
}

export const encryptedHello = { type: 0xfe0d, content: Buffer.alloc(8) };

function number(value: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
}

function vector(content: Buffer, countBytes: number): Buffer {
  return Buffer.concat([number(content.length, countBytes), content]);
}
