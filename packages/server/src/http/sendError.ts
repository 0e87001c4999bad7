import type { IncomingMessage, ServerResponse } from "node:http";
import { makeId, SandpoolError } from "@sandpool/protocol";
import type { Logger } from "pino";

const LINGER_MS = 2_000;
const LINGER_BYTES = 16 * 2 ** 20;

/** Turns whatever was thrown into an error that may be shown; what is not ours is logged and hidden behind an id. */
export function toSandpoolError(thrown: unknown, logger: Logger): SandpoolError {
  if (thrown instanceof SandpoolError) return thrown;
  const requestId = makeId("req");
  logger.error({ err: thrown, requestId }, "internal fault");
  return new SandpoolError("internal", `an internal fault happened; the server's log has it under ${requestId}`, {
    hint: "please report it with that part of the log",
    details: { request_id: requestId },
  });
}

/**
 * Answers with an error. A request whose body is still arriving is answered first and then read on for a moment:
 * a connection closed with unread bytes is reset, and the caller would see that instead of the answer.
 */
export function sendError(request: IncomingMessage, response: ServerResponse, error: SandpoolError): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = Buffer.from(JSON.stringify(error.toWire()));
  const arriving = isArriving(request);
  response.writeHead(error.status, {
    "Content-Type": "application/json",
    "Content-Length": body.length,
    ...(error.code === "unauthorized" ? { "WWW-Authenticate": "Bearer" } : {}),
    ...retryAfter(error),
    ...(arriving || isAnonymous(error) ? { Connection: "close" } : {}),
  });
  if (request.method === "HEAD") {
    response.end();
  } else if (arriving) {
    response.write(body);
    linger(request, () => response.end());
  } else {
    response.end(body);
  }
}

/** Where a fault passes by itself, its details say when. */
function retryAfter({ details }: SandpoolError): Record<string, string> {
  return typeof details.retry_after_s === "number" ? { "Retry-After": String(details.retry_after_s) } : {};
}

function isAnonymous(error: SandpoolError): boolean {
  return error.code === "unauthorized" || error.code === "host_not_allowed";
}

function isArriving(request: IncomingMessage): boolean {
  if (request.complete) return false;
  const length = request.headers["content-length"];
  return request.headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}

function linger(request: IncomingMessage, done: () => void): void {
  let discardedBytes = 0;
  const finish = () => {
    clearTimeout(timer);
    request.off("data", count).off("end", finish).off("close", finish);
    done();
  };
  const count = (chunk: Buffer) => {
    discardedBytes += chunk.length;
    if (discardedBytes > LINGER_BYTES) finish();
  };
  const timer = setTimeout(finish, LINGER_MS);
  request.on("data", count).once("end", finish).once("close", finish);
}
