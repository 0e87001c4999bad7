import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Forwarding, notHttp, openRequest } from "./forward.ts";
import { responseHeaders } from "./headers.ts";

/**
 * Sends a request for an upgrade (WebSocket or any other) to a program. Where it agrees, the two connections become one, byte for byte both ways;
 * where it answers otherwise, its reply goes back as of any request, and the connection ends.
 *
 * Resolves when it is over. @throws `port_refused` where the program answers with no HTTP; nothing was answered then
 */
export async function forwardUpgrade(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  forwarding: Forwarding,
): Promise<void> {
  const protocol = request.headers.upgrade ?? "";
  const outgoing = openRequest(request, forwarding, ["Connection", "Upgrade", "Upgrade", protocol]);
  const headersOf = (reply: IncomingMessage): string[] => {
    return responseHeaders(reply, forwarding.address, { origin: `${forwarding.scheme}://${request.headers.host}` });
  };
  try {
    await new Promise<void>((resolve, reject) => {
      let isAnswered = false;
      socket.once("close", resolve);
      outgoing.on("error", (cause) => (isAnswered ? socket.destroy() : reject(notHttp(forwarding.address, cause))));
      outgoing.once("upgrade", (reply, connection, first) => {
        isAnswered = true;
        const agreed = ["Connection", "Upgrade", "Upgrade", reply.headers.upgrade ?? protocol];
        socket.write(headText(reply, [...headersOf(reply), ...agreed]));
        socket.write(first);
        connection.write(head);
        join(socket, connection);
      });
      outgoing.once("response", (reply) => {
        isAnswered = true;
        answerPlainly(request, socket, reply, headersOf(reply)).then(resolve, reject);
      });
      outgoing.end();
    });
  } finally {
    outgoing.destroy();
    forwarding.connection.destroy();
  }
}

function headText(reply: IncomingMessage, headers: readonly string[]): Buffer {
  let text = `HTTP/1.1 ${reply.statusCode} ${reply.statusMessage}\r\n`;
  for (let at = 0; at + 1 < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
  return Buffer.from(`${text}\r\n`, "latin1");
}

/** Half-closes are passed on; what breaks one side breaks the other. */
function join(one: Duplex, other: Duplex): void {
  one.pipe(other);
  other.pipe(one);
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.once("error", () => to.destroy());
    from.once("close", () => (from.readableEnded ? undefined : to.destroy()));
  }
}

/** A reply that is no upgrade, on a connection that HTTP has let go. */
async function answerPlainly(
  request: IncomingMessage,
  socket: Duplex,
  reply: IncomingMessage,
  headers: string[],
): Promise<void> {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket as Socket);
  response.writeHead(reply.statusCode ?? 502, reply.statusMessage, headers);
  response.flushHeaders();
  await new Promise<void>((resolve) => {
    response.once("finish", () => socket.end(resolve));
    response.once("close", resolve);
    socket.once("close", resolve);
    reply.pipe(response, { end: false });
    reply.once("end", () => (reply.complete ? response.end() : undefined));
    reply.once("close", () => (reply.complete ? undefined : socket.destroy()));
  });
}
