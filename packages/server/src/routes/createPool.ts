import type { IncomingMessage, ServerResponse } from "node:http";
import { type CreateEvent, CreatePoolInput, fillCreateDefaults, PoolReply } from "@sandpool/protocol";
import type { Pool } from "@sandpool/worker";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { App } from "../http/app.ts";
import { endpointOf } from "../http/endpoint.ts";
import { callerOf } from "../http/gate.ts";
import { toSandpoolError } from "../http/sendError.ts";
import { withEndpoint } from "../pools/catalog.ts";
import type { Creation } from "../pools/createPool.ts";
import { readIdempotencyKey } from "../pools/idempotency.ts";
import type { RouteContext } from "./addRoutes.ts";

const NDJSON = "application/x-ndjson";

export function addPoolCreation(app: App, context: RouteContext): void {
  app.post(
    "/v1/pools",
    {
      bodyLimit: context.limits.createBodyBytes,
      schema: { body: CreatePoolInput, produces: ["application/json", NDJSON], response: { 201: PoolReply } },
    },
    async (request, reply) => {
      const creation = await context.creator.start({
        caller: callerOf(request.raw),
        request: fillCreateDefaults(request.body),
        rawBody: request.rawBody ?? Buffer.alloc(0),
        idempotencyKey: readIdempotencyKey(request.headers["idempotency-key"]),
      });
      reply.raw.once("close", () => {
        if (!reply.raw.writableFinished) creation.abandon();
      });
      if (request.headers.accept?.includes(NDJSON)) {
        reply.hijack();
        await streamCreation(context, creation, request.raw, reply.raw);
        return reply;
      }
      return sendPool(context, creation, request, reply);
    },
  );
}

async function sendPool(context: RouteContext, creation: Creation, request: FastifyRequest, reply: FastifyReply) {
  const pool = await creation.pool;
  return reply.code(201).send(describe(context, pool, request.raw));
}

/** One JSON object a line: accepted at once, progress, a heartbeat while nothing happens, last the pool or the error. */
async function streamCreation(
  context: RouteContext,
  creation: Creation,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const write = (event: CreateEvent) => {
    if (!response.destroyed) response.write(`${JSON.stringify(event)}\n`);
  };
  response.writeHead(201, { "Content-Type": NDJSON, "Cache-Control": "no-store", "X-Accel-Buffering": "no" });
  write({ event: "accepted", id: creation.operationId });
  const heartbeat = setInterval(() => write({ event: "heartbeat" }), context.limits.heartbeatMs);
  creation.onProgress(write);
  try {
    const pool = await creation.pool;
    write({ event: "pool", pool: describe(context, pool, request) });
  } catch (thrown) {
    const error = toSandpoolError(thrown, context.logger);
    context.metrics.error(error.code);
    write({ event: "error", ...error.toWire(), status: error.status });
  } finally {
    clearInterval(heartbeat);
    response.end();
  }
}

function describe(context: RouteContext, pool: Pool, request: IncomingMessage): PoolReply {
  return withEndpoint(pool.describe(), endpointOf(request, context));
}
