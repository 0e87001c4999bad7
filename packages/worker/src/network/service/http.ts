import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  request as sendRequest,
} from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { type NormalHost, normalizeHost } from "../policy/hosts.ts";
import type { Client, Clients } from "./clients.ts";
import { dialAllowed, Refusal } from "./dial.ts";
import { limits, type OpenCounts } from "./limits.ts";
import { serveTunnel } from "./tunnel.ts";

/** Headers that speak of one connection only (RFC 9110, 7.6.1). */
const hopHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * A proxy for `http` in absolute form and CONNECT; and, where a machine's port 80 was led here, for what `Host` names. Requests are parsed
 * and written anew, one connection to the server each: nothing of one can become another.
 */
export function makeHttpProxy(clients: Clients, counts: OpenCounts): Server {
  const server = createServer({
    maxHeaderSize: limits.headBytes,
    headersTimeout: limits.helloMs,
    requestTimeout: 0,
    keepAliveTimeout: limits.helloMs,
    connectionsCheckingInterval: 5_000,
    insecureHTTPParser: false,
    requireHostHeader: true,
    joinDuplicateHeaders: false,
  });
  server.setTimeout(limits.idleMs);
  server.on("connection", (socket: Socket) => admit(clients, counts, socket));
  server.on("request", (request: IncomingMessage, reply: ServerResponse) => {
    answer(clients, request, reply).catch((error: unknown) => refuse(reply, error));
  });
  server.on("connect", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    tunnel(clients, request, socket, head).catch((error: unknown) => refuseTunnel(socket, error));
  });
  server.on("clientError", (_error: Error, socket: Socket) => {
    if (socket.writable) socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    else socket.destroy();
  });
  return server;
}

/** Ends a connection of nobody's, and one over a machine's limit. */
export function admit(clients: Clients, counts: OpenCounts, socket: Socket): Client | null {
  socket.on("error", () => socket.destroy());
  const address = socket.remoteAddress ?? "";
  const client = clients.get(address);
  if (client?.egress === null || client === null || !counts.take(address)) {
    socket.destroy();
    return null;
  }
  socket.once("close", () => counts.give(address));
  return client;
}

async function answer(clients: Clients, request: IncomingMessage, reply: ServerResponse): Promise<void> {
  const target = targetOf(request);
  const server = await dialAllowed(clients, clientOf(clients, request), target.host, target.port);
  const forwarded = sendRequest({
    createConnection: () => server,
    method: request.method ?? "GET",
    path: target.path,
    headers: [...endToEnd(request), "Host", target.authority, "Connection", "close"],
    setHost: false,
  });
  forwarded.setTimeout(limits.idleMs, () => forwarded.destroy());
  forwarded.once("response", (response) => {
    reply.writeHead(response.statusCode ?? 502, [...endToEnd(response)]);
    pipeline(response, reply, () => undefined);
  });
  forwarded.once("error", () => refuse(reply, new Refusal(502, `${target.authority} did not answer`)));
  reply.once("close", () => forwarded.destroy());
  // What cannot be passed on ends both.
  pipeline(request, forwarded, () => undefined);
}

function targetOf(request: IncomingMessage): { host: NormalHost; port: number; path: string; authority: string } {
  const text = request.url ?? "";
  // Node keeps the first of several; which one the server takes, nobody knows.
  const hosts = request.rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
  const absolute = text.startsWith("/") ? `http://${request.headers.host ?? ""}${text}` : text;
  const url = URL.parse(absolute);
  if (hosts > 1 || url === null || url.protocol !== "http:" || !/^http:\/\/[^@\\/?#]+(?:[/?#]|$)/i.test(absolute)) {
    throw new Refusal(400, "a request has one Host, and an address with http: or CONNECT host:port");
  }
  const host = normalizeHost(url.hostname);
  if (host === null) throw new Refusal(400, `${JSON.stringify(url.hostname)} is no full host name or address`);
  return { host, port: url.port === "" ? 80 : Number(url.port), path: url.pathname + url.search, authority: url.host };
}

async function tunnel(clients: Clients, request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
  socket.on("error", () => socket.destroy());
  const found = /^(\[[^\]]+\]|[^:]+):(\d{1,5})$/.exec(request.url ?? "");
  const host = normalizeHost(found?.[1] ?? "");
  if (host === null) throw new Refusal(400, "CONNECT takes a full host name or an address, and a port");
  const port = Number(found?.[2]);
  const server = await dialAllowed(clients, clientOf(clients, request), host, port);
  socket.once("close", () => server.destroy());
  socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
  await serveTunnel(socket, server, head, host, port);
}

function clientOf(clients: Clients, request: IncomingMessage): Client {
  const client = clients.get(request.socket.remoteAddress);
  if (client === null) throw new Refusal(403, "this machine has no network any more");
  return client;
}

function endToEnd({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = new Set((headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = "", value = ""] = rawHeaders.slice(at, at + 2);
    const lower = name.toLowerCase();
    if (lower !== "host" && !hopHeaders.has(lower) && !named.has(lower)) kept.push(name, value);
  }
  return kept;
}

function refuse(reply: ServerResponse, error: unknown): void {
  if (reply.headersSent) {
    reply.destroy();
    return;
  }
  const { status, message } = refusalOf(error);
  const body = `Sandpool's egress proxy: ${message}\n`;
  reply.writeHead(status, {
    "Content-Type": "text/plain; charset=utf-8",
    "Content-Length": Buffer.byteLength(body),
    Connection: "close",
  });
  reply.end(body);
}

function refuseTunnel(socket: Socket, error: unknown): void {
  if (socket.destroyed) return;
  const { status, message } = refusalOf(error);
  const body = `Sandpool's egress proxy: ${message}\n`;
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

function refusalOf(error: unknown): Refusal {
  return error instanceof Refusal ? error : new Refusal(502, "the request could not be passed on");
}
