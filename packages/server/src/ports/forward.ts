import { type ClientRequest, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type { PortAddress } from "./address.ts";
import type { AdmittedRequest } from "./admit.ts";
import { requestHeaders, responseHeaders } from "./headers.ts";

/** A request that may go to the program, and the connection to it. */
export interface Forwarding {
  address: PortAddress;
  admitted: AdmittedRequest;
  scheme: "http" | "https";
  connection: Duplex;
  maxHeaderBytes: number;
}

/**
 * Sends a request to a program and its reply back, both as they come. The framing of each side is Node's own: what one side says of lengths
 * and chunks is parsed and said anew, never passed on.
 *
 * Resolves when the reply has ended or its client is gone.
 * @throws `port_refused` where the program answers with no HTTP; the reply has not begun then
 */
export async function forward(
  request: IncomingMessage,
  response: ServerResponse,
  forwarding: Forwarding,
): Promise<void> {
  const outgoing = openRequest(request, forwarding, bodyHeaders(request));
  try {
    await exchange(request, response, outgoing, forwarding);
  } finally {
    outgoing.destroy();
    forwarding.connection.destroy();
  }
}

function exchange(
  request: IncomingMessage,
  response: ServerResponse,
  outgoing: ClientRequest,
  forwarding: Forwarding,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: unknown): void => {
      if (response.headersSent || response.destroyed) response.destroy();
      else reject(notHttp(forwarding.address, cause));
    };
    response.once("close", resolve);
    outgoing.on("continue", () => response.writeContinue());
    outgoing.on("information", (information) => relayInformation(response, information));
    outgoing.once("response", (reply) => {
      try {
        relay(reply, response, request, forwarding);
      } catch (cause) {
        failed(cause);
      }
    });
    // Asked for no upgrade, a program has none to give.
    outgoing.once("upgrade", (reply) => failed(new Error(`${reply.statusCode} to a request without an upgrade`)));
    outgoing.on("error", failed);
    sendBody(request, outgoing);
  });
}

/** Begins the request to the program; `framing` is what it says of its body. */
export function openRequest(request: IncomingMessage, forwarding: Forwarding, framing: string[]): ClientRequest {
  const { address, admitted, scheme, connection, maxHeaderBytes } = forwarding;
  return httpRequest({
    createConnection: () => connection,
    method: request.method ?? "GET",
    path: admitted.target,
    headers: [...requestHeaders(request, address, admitted, scheme), ...framing],
    setHost: false,
    setDefaultHeaders: false,
    maxHeaderSize: maxHeaderBytes,
    insecureHTTPParser: false,
  });
}

function bodyHeaders({ headers }: IncomingMessage): string[] {
  if (headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", "chunked", "Connection", "close"];
  const length = headers["content-length"];
  return length === undefined ? ["Connection", "close"] : ["Content-Length", length, "Connection", "close"];
}

function sendBody(request: IncomingMessage, outgoing: ClientRequest): void {
  outgoing.flushHeaders();
  request.pipe(outgoing, { end: false });
  request.once("end", () => {
    const trailers = pairs(request.rawTrailers);
    if (trailers.length > 0) outgoing.addTrailers(trailers as unknown as { [name: string]: string });
    outgoing.end();
  });
  // A body that broke off must not look like one that ended.
  request.once("close", () => {
    if (!request.complete) outgoing.destroy();
  });
}

function relay(
  reply: IncomingMessage,
  response: ServerResponse,
  request: IncomingMessage,
  { address, scheme }: Forwarding,
): void {
  const origin = `${scheme}://${request.headers.host}`;
  response.writeHead(reply.statusCode ?? 502, reply.statusMessage, responseHeaders(reply, address, { origin }));
  response.flushHeaders();
  reply.pipe(response, { end: false });
  reply.once("end", () => {
    if (!reply.complete) return;
    const trailers = pairs(reply.rawTrailers);
    if (trailers.length > 0 && response.chunkedEncoding) response.addTrailers(trailers);
    response.end();
  });
  reply.once("close", () => {
    if (!reply.complete) response.destroy();
  });
}

function relayInformation(
  response: ServerResponse,
  { statusCode, headers }: { statusCode: number; headers: NodeJS.Dict<string | string[]> },
): void {
  if (response.headersSent) return;
  if (statusCode === 102) response.writeProcessing();
  const { link, ...others } = headers;
  if (statusCode === 103 && link !== undefined) response.writeEarlyHints({ ...others, link } as Record<string, string>);
}

function pairs(raw: readonly string[]): [string, string][] {
  const found: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) found.push([String(raw[at]), String(raw[at + 1])]);
  return found;
}

/** What a program says is no HTTP, or it hung up before it said anything. */
export function notHttp({ port, machine }: PortAddress, cause: unknown): SandpoolError {
  const { code, message } = cause as NodeJS.ErrnoException;
  return new SandpoolError(
    "port_refused",
    `the program on port ${port} of ${machine} gave no HTTP reply: ${code ?? message}`,
    {
      hint: "look at what it writes; only HTTP is passed on",
      details: { port },
      cause,
    },
  );
}
