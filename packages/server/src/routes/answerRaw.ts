import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { answerError } from "../http/serveRequests.ts";
import type { RouteContext } from "./addRoutes.ts";

/** Lets a handler write the reply itself; what it throws is answered as of any route, unless the client is gone. */
export async function answerRaw(
  context: Pick<RouteContext, "metrics" | "logger">,
  request: FastifyRequest,
  reply: FastifyReply,
  answer: (response: ServerResponse) => Promise<void>,
): Promise<void> {
  reply.hijack();
  try {
    await answer(reply.raw);
  } catch (error) {
    if (!reply.raw.destroyed) answerError(context, request.raw, reply.raw, error);
  }
}
