import { once } from "node:events";
import { decodeBatch } from "@sandpool/protocol";
import { onTestFinished } from "vitest";
import { WebSocket } from "ws";
import type { TestServer } from "./startTestServer.ts";

export interface StreamOpening {
  session?: string;
  received?: number;
  /** Instead of the two above. */
  query?: string;
  protocol?: string | string[];
  key?: string | null;
  headers?: Record<string, string>;
  /** A unix socket instead of TCP. */
  socketPath?: string;
}

/** A message of the stream, read as loosely as a test needs. */
export interface StreamText {
  event?: string;
  number?: number;
  accepted?: number;
  next_result?: number;
  where?: number[];
  ops?: string[];
  rewards?: number[];
  failed?: number[];
  error?: { code: string; message: string; hint: string; details: Record<string, unknown> };
  [member: string]: unknown;
}

/** A WebSocket of a pool's stream; it ends with the test that opened it. */
export class TestSocket {
  readonly socket: WebSocket;
  readonly inbox: StreamText[] = [];
  /** Whether each message was text. */
  readonly texts: boolean[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;

  constructor(socket: WebSocket) {
    this.socket = socket;
    this.closed = once(socket, "close").then(([code, reason]) => ({ code: Number(code), reason: String(reason) }));
    socket.on("error", () => {});
    socket.on("message", (data: Buffer, isBinary) => {
      this.texts.push(!isBinary);
      this.inbox.push(isBinary ? readBinary(data) : (JSON.parse(data.toString()) as StreamText));
    });
    onTestFinished(() => socket.terminate());
  }

  send(message: object): void {
    this.socket.send(JSON.stringify(message));
  }
}

export function openStream(server: TestServer, poolId: string, opening: StreamOpening = {}): TestSocket {
  return new TestSocket(connect(server, poolId, opening));
}

/** The refusal of an upgrade; null where it was made. */
export function refusalOf(
  server: TestServer,
  poolId: string,
  opening: StreamOpening,
): Promise<{ status: number; error: { code: string; message: string } } | null> {
  const socket = connect(server, poolId, opening);
  onTestFinished(() => socket.terminate());
  return new Promise((resolve, reject) => {
    socket.on("open", () => resolve(null));
    socket.on("error", reject);
    socket.on("unexpected-response", (_request, response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const { error } = JSON.parse(Buffer.concat(chunks).toString()) as { error: { code: string; message: string } };
        resolve({ status: response.statusCode ?? 0, error });
      });
    });
  });
}

function connect(server: TestServer, poolId: string, opening: StreamOpening): WebSocket {
  const { session = "mine", received, protocol = [], key = server.running.key, headers = {}, socketPath } = opening;
  const query = opening.query ?? `session=${session}${received === undefined ? "" : `&received=${received}`}`;
  const address = `ws://127.0.0.1:${server.port}/v1/pools/${poolId}/stream?${query}`;
  const authorization = key === null ? {} : { authorization: `Bearer ${key}` };
  return new WebSocket(address, protocol, {
    perMessageDeflate: false,
    headers: { ...authorization, ...headers },
    ...(socketPath === undefined ? {} : { socketPath }),
  });
}

function readBinary(bytes: Buffer): StreamText {
  const { map, fields } = decodeBatch(bytes);
  const columns: StreamText = {};
  for (const field of fields) {
    const data = Buffer.from(field.data);
    if (field.json) columns[field.name] = JSON.parse(data.toString());
    else if (field.dtype === "|b1") columns[field.name] = [...data];
    else columns[field.name] = [...new Float64Array(data.buffer, data.byteOffset, data.length / 8)];
  }
  return { ...(map as StreamText), ...columns };
}
