import type { IncomingMessage, ServerResponse } from "node:http";
import { CreateMachineInput, fillMachineDefaults, Machine, MachineBatch, type MachineEvent } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { toSandpoolError } from "../http/sendError.ts";
import type { Fate, MachineCreation } from "../machines/create.ts";
import { readIdempotencyKey } from "../pools/idempotency.ts";
import type { RouteContext } from "./addRoutes.ts";
import { describeEntry } from "./machines.ts";

const NDJSON = "application/x-ndjson";

export function addMachineCreation(app: App, context: RouteContext): void {
  app.post(
    "/v1/machines",
    {
      bodyLimit: context.limits.createBodyBytes,
      schema: {
        body: CreateMachineInput,
        produces: ["application/json", NDJSON],
        response: { 201: Type.Union([Machine, MachineBatch]) },
      },
    },
    async (request, reply) => {
      const machine = fillMachineDefaults(request.body);
      const creation = await context.machineLife.creator.start({
        caller: callerOf(request.raw),
        request: machine,
        rawBody: request.rawBody ?? Buffer.alloc(0),
        idempotencyKey: readIdempotencyKey(request.headers["idempotency-key"]),
      });
      if (reply.raw.destroyed) creation.abandon();
      reply.raw.once("close", () => {
        if (!reply.raw.writableFinished) creation.abandon();
      });
      if (request.headers.accept?.includes(NDJSON)) {
        reply.hijack();
        await streamCreation(context, creation, machine.count > 1, request.raw, reply.raw);
        return reply;
      }
      const fates = await creation.fates;
      if (machine.count > 1) return reply.code(201).send(await describeBatch(context, fates, request.raw));
      return reply.code(201).send(await describeEntry(context, entryOf(fates[0]), request.raw));
    },
  );
}

/** One JSON object a line: accepted at once, progress, a heartbeat while nothing happens, last what was made or the error. */
async function streamCreation(
  context: RouteContext,
  creation: MachineCreation,
  isBatch: boolean,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const write = (event: MachineEvent) => {
    if (!response.destroyed) response.write(`${JSON.stringify(event)}\n`);
  };
  response.writeHead(201, { "Content-Type": NDJSON, "Cache-Control": "no-store", "X-Accel-Buffering": "no" });
  write({ event: "accepted", id: creation.id });
  const heartbeat = setInterval(() => write({ event: "heartbeat" }), context.limits.heartbeatMs);
  creation.onProgress(write);
  try {
    const fates = await creation.fates;
    if (isBatch) write({ event: "machines", ...(await describeBatch(context, fates, request)) });
    else write({ event: "machine", machine: await describeEntry(context, entryOf(fates[0]), request) });
  } catch (thrown) {
    const error = toSandpoolError(thrown, context.logger);
    context.metrics.error(error.code);
    write({ event: "error", ...error.toWire(), status: error.status });
  } finally {
    clearInterval(heartbeat);
    response.end();
  }
}

async function describeBatch(context: RouteContext, fates: Fate[], request: IncomingMessage): Promise<MachineBatch> {
  const machines = fates.map(async (fate) => {
    if ("entry" in fate) return { machine: await describeEntry(context, fate.entry, request) };
    const error = toSandpoolError(fate.error, context.logger);
    context.metrics.error(error.code);
    return error.toWire();
  });
  return { machines: await Promise.all(machines) };
}

function entryOf(fate: Fate | undefined) {
  if (fate === undefined) throw new Error("a creation without a fate");
  if ("error" in fate) throw fate.error;
  return fate.entry;
}
