import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { type BatchContext, handleBatch } from "../batches/handleBatch.ts";
import { matchBatch } from "../batches/matchBatch.ts";
import type { PortAddress } from "../ports/address.ts";
import type { PortServer } from "../ports/portServer.ts";
import type { Gate } from "./gate.ts";
import { shortenKeepAlive } from "./httpServer.ts";
import type { InFlight } from "./inFlight.ts";
import { sendError, toSandpoolError } from "./sendError.ts";
import { serverClosing } from "./serverClosing.ts";

export interface RequestContext extends BatchContext {
  gate: Gate;
  logger: Logger;
  inFlight: InFlight;
  ports: PortServer;
  isClosing(): boolean;
}

/**
 * The first code a request meets: the gate, then the step path, then everything else (`rest`, fastify).
 * Batches pass no router, hook or schema library on their way; the gate in front is the same for all.
 */
export function serveRequests(context: RequestContext, rest: RequestListener): RequestListener {
  return (request, response) => {
    const port = context.ports.addressOf(request);
    if (port !== null) {
      servePort(context, port, request, response);
      return;
    }
    try {
      if (context.isClosing()) throw serverClosing();
      const identity = context.gate.admit(request);
      if (identity === null) shortenKeepAlive(request, response, context.limits.anonymousKeepAliveMs);
    } catch (error) {
      answerError(context, request, response, error);
      return;
    }
    const match = matchBatch(request.method ?? "", request.url ?? "");
    context.inFlight.enter();
    if (match === null) {
      response.once("close", () => context.inFlight.leave());
      rest(request, response);
      return;
    }
    handleBatch(context, match.operation, match.idOrName, request, response)
      .catch((error: unknown) => answerError(context, request, response, error))
      .finally(() => context.inFlight.leave());
  };
}

/** What is for a program in a machine never comes near the API. */
function servePort(
  context: RequestContext,
  address: PortAddress,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  // Whoever shows no key is not kept long between two requests; with one, the next request says so again.
  if (request.headers.authorization === undefined) {
    shortenKeepAlive(request, response, context.limits.anonymousKeepAliveMs);
  }
  const handled = context.isClosing()
    ? Promise.reject(serverClosing())
    : context.ports.handle(address, request, response);
  handled.catch((error: unknown) => {
    if (!response.destroyed) answerError(context, request, response, error);
  });
}

/** Answers, counts and, for faults of our own, logs. */
export function answerError(
  context: Pick<RequestContext, "metrics" | "logger">,
  request: IncomingMessage,
  response: ServerResponse,
  thrown: unknown,
): void {
  const error = toSandpoolError(thrown, context.logger);
  context.metrics.error(error.code);
  sendError(request, response, error);
}
