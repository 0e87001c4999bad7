import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  request as sendRequest,
} from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import type { Client, Clients } from "./clients.ts";
import { dialAllowed, Refusal } from "./dial.ts";
import { endToEnd, targetOf, tunnelOf } from "./http-target.ts";
import { limits, type OpenCounts } from "./limits.ts";
import { join, serveTunnel } from "./tunnel.ts";

/**
 * A proxy for `http` in absolute form and CONNECT; and, where a machine's port 80 was led here, for what `Host` names. Requests are parsed
 * and written anew, one connection to the server each, those in a tunnel to port 80 too: nothing of one can become another.
 */
export function makeHttpProxy(clients: Clients, counts: OpenCounts): Server {
  const server = makeServer(clients);
  const tunnelled = makeServer(clients);
  server.on("connection", (socket: Socket) => admit(clients, counts, socket));
  server.on("connect", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    tunnel(clients, request, socket, head, tunnelled).catch((error: unknown) => refuseSocket(socket, error));
  });
  return server;
}

/** Ends a connection of nobody's, and one over a machine's limit. */
export function admit(clients: Clients, counts: OpenCounts, socket: Socket): Client | null {
  socket.on("error", () => socket.destroy());
  const address = socket.remoteAddress ?? "";
  const client = clients.get(address);
  if (client === null || client.egress === null || !counts.take(address)) {
    socket.destroy();
    return null;
  }
  socket.once("close", () => counts.give(address));
  return client;
}

function makeServer(clients: Clients): Server {
  const server = createServer({
    maxHeaderSize: limits.headBytes,
    headersTimeout: limits.helloMs,
    requestTimeout: 0,
    keepAliveTimeout: limits.helloMs,
    connectionsCheckingInterval: 5_000,
    insecureHTTPParser: false,
    requireHostHeader: true,
  });
  server.setTimeout(limits.idleMs);
  server.on("request", (request: IncomingMessage, reply: ServerResponse) => {
    answer(clients, request, reply).catch((error: unknown) => refuse(reply, error));
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    upgrade(clients, request, socket, head).catch((error: unknown) => refuseSocket(socket, error));
  });
  server.on("clientError", (_error: Error, socket: Socket) => {
    if (socket.writable) socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    else socket.destroy();
  });
  return server;
}

async function answer(clients: Clients, request: IncomingMessage, reply: ServerResponse): Promise<void> {
  const framing = request.headers["transfer-encoding"] === undefined ? [] : ["Transfer-Encoding", "chunked"];
  const { forwarded, authority } = await forward(clients, request, ["Connection", "close", ...framing]);
  forwarded.once("response", (response) => {
    try {
      reply.writeHead(response.statusCode ?? 502, endToEnd(response));
      pipeline(response, reply, () => undefined);
    } catch (error) {
      // Headers that may not be written, from a server that nobody vouches for.
      forwarded.destroy();
      refuse(reply, error);
    }
  });
  forwarded.once("error", () => refuse(reply, new Refusal(502, `${authority} did not answer as HTTP`)));
  reply.once("close", () => forwarded.destroy());
  // What cannot be passed on ends both.
  pipeline(request, forwarded, () => undefined);
}

/** WebSockets and the like: once the server has agreed, bytes pass. */
async function upgrade(clients: Clients, request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
  const wanted = ["Connection", "Upgrade", "Upgrade", request.headers.upgrade ?? ""];
  const { forwarded, authority } = await forward(clients, request, wanted);
  socket.once("close", () => forwarded.destroy());
  forwarded.once("upgrade", (response, server, rest) => {
    const headers = response.rawHeaders;
    const lines = headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}`] : []));
    socket.write(["HTTP/1.1 101 Switching Protocols", ...lines, "", ""].join("\r\n"), "latin1");
    if (rest.length > 0) socket.write(rest);
    join(socket, server as Socket, head);
  });
  const refused = (): void => refuseSocket(socket, new Refusal(502, `${authority} did not agree to the upgrade`));
  forwarded.once("response", (response) => {
    response.destroy();
    refused();
  });
  forwarded.once("error", refused);
  forwarded.end();
}

async function forward(
  clients: Clients,
  request: IncomingMessage,
  headers: string[],
): Promise<{ forwarded: ReturnType<typeof sendRequest>; authority: string }> {
  const { host, port, path, authority } = targetOf(request);
  const server = await dialAllowed(clients, clientOf(clients, request), host, port);
  // Without an agent: with one, Node dials by itself.
  const forwarded = sendRequest({
    createConnection: () => server,
    method: request.method ?? "GET",
    path,
    headers: [...endToEnd(request), "Host", authority, ...headers],
    setHost: false,
    maxHeaderSize: limits.headBytes,
  });
  forwarded.setTimeout(limits.idleMs, () => forwarded.destroy());
  return { forwarded, authority };
}

async function tunnel(
  clients: Clients,
  request: IncomingMessage,
  socket: Socket,
  head: Buffer,
  http: Server,
): Promise<void> {
  const { host, port } = tunnelOf(request);
  const server = await dialAllowed(clients, clientOf(clients, request), host, port);
  socket.once("close", () => server.destroy());
  socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
  if (port !== 80) return await serveTunnel(socket, server, head, host, port);
  server.destroy();
  if (head.length > 0) socket.unshift(head);
  http.emit("connection", socket);
}

function clientOf(clients: Clients, request: IncomingMessage): Client {
  const client = clients.get(request.socket.remoteAddress);
  if (client === null) throw new Refusal(403, "this machine has no network any more");
  return client;
}

function refuse(reply: ServerResponse, error: unknown): void {
  if (reply.headersSent) {
    reply.destroy();
    return;
  }
  const { status, headers, body } = refusalOf(error);
  reply.writeHead(status, headers);
  reply.end(body);
}

function refuseSocket(socket: Socket, error: unknown): void {
  if (socket.destroyed || !socket.writable) return;
  const { status, headers, body } = refusalOf(error);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end([`HTTP/1.1 ${status} Refused`, ...lines, "", body].join("\r\n"));
}

function refusalOf(error: unknown): { status: number; headers: Record<string, string | number>; body: string } {
  const refusal = error instanceof Refusal ? error : new Refusal(502, "the request could not be passed on");
  const body = `Sandpool's egress proxy: ${refusal.message}\n`;
  const headers = { "Content-Type": "text/plain; charset=utf-8", "Content-Length": Buffer.byteLength(body) };
  return { status: refusal.status, headers: { ...headers, Connection: "close" }, body };
}
