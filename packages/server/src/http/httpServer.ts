import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type { ServerLimits, ServerOptions } from "../options.ts";
import { isForPort } from "../ports/address.ts";
import { isUpgrade } from "./isUpgrade.ts";

const TLS_HANDSHAKE_MS = 10_000;

/** A bare HTTP or HTTPS server with every bound set; Node's own defaults leave several of them open. */
export function createHttpServer(limits: ServerLimits, tls: ServerOptions["tls"], listener: RequestListener): Server {
  const options = {
    headersTimeout: limits.headersTimeoutMs,
    // Bodies have bounds of their own, where they are read: an upload takes as long as it takes.
    requestTimeout: 0,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: limits.connectionsCheckMs,
    maxHeaderSize: limits.maxHeaderBytes,
    requireHostHeader: false,
    insecureHTTPParser: false,
    noDelay: true,
    // Node before 24.9 does not know it: there every upgrade is taken off HTTP, and those that are none of ours are refused.
    shouldUpgradeCallback: isUpgrade,
  };
  const server = tls
    ? createTlsServer({ ...options, ...tls, minVersion: "TLSv1.2", handshakeTimeout: TLS_HANDSHAKE_MS }, listener)
    : createServer(options, listener);
  server.maxConnections = limits.maxConnections;
  server.maxHeadersCount = 100;
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    // A program decides itself whether it wants the body.
    if (!isForPort(request)) response.writeContinue();
    listener(request, response);
  });
  server.on("clientError", answerClientError);
  return server as Server;
}

/** A connection whose caller showed no key is not kept as long as one that did. */
export function shortenKeepAlive(request: IncomingMessage, response: ServerResponse, milliseconds: number): void {
  const { socket } = request;
  response.once("finish", () => socket.setTimeout(milliseconds));
}

/** What the parser or a timeout refuses never becomes a request; it still gets an answer in our form. */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  refuseOnSocket(socket, clientFault(error));
}

/** Answers on a connection that HTTP has let go, and ends it. */
export function refuseOnSocket(socket: Duplex, error: SandpoolError): void {
  const body = JSON.stringify(error.toWire());
  const authenticate = error.code === "unauthorized" ? "WWW-Authenticate: Bearer\r\n" : "";
  socket.once("finish", () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${error.status} Refused\r\nConnection: close\r\nContent-Type: application/json\r\n${authenticate}` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

function clientFault(error: NodeJS.ErrnoException): SandpoolError {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    return new SandpoolError("headers_too_large", "the request's headers are larger than this server accepts");
  }
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return new SandpoolError("request_timeout", "the request did not arrive within its time");
  }
  return new SandpoolError("invalid_request", `the request is no HTTP/1.1: ${error.code ?? "unknown"}`);
}
