import {
  AttachQuery,
  DeletedExec,
  EXEC_STREAM_TYPE,
  ExecList,
  ExecOutcome,
  ExecParams,
  ExecQuery,
  ExecRequest,
  MachineParams,
  SandpoolError,
  SignalExecRequest,
  SignalledExec,
} from "@sandpool/protocol";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { ExecCall } from "../exec/context.ts";
import { deleteExec, deleteExecOfKey } from "../exec/deleteExec.ts";
import { getExec } from "../exec/getExec.ts";
import { describeState } from "../exec/outcome.ts";
import { runExec } from "../exec/runExec.ts";
import { type ExecAsked, startExec } from "../exec/startExec.ts";
import { streamExec } from "../exec/streamExec.ts";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { readIdempotencyKey } from "../pools/idempotency.ts";
import type { RouteContext } from "./addRoutes.ts";
import { answerRaw } from "./answerRaw.ts";

/** 16 MiB of standard input as base64, and the rest. */
const BODY_LIMIT_BYTES = 24 * 2 ** 20;
const Key = Type.Optional(Type.String({ description: "by which the same request joins the exec it began" }));

/** Programs in machines, but for the WebSocket, which `exec/attach/` takes before. */
export function addExecRoutes(app: App, context: RouteContext): void {
  app.post(
    "/v1/machines/:machine/exec",
    {
      bodyLimit: BODY_LIMIT_BYTES,
      schema: {
        params: MachineParams,
        headers: Type.Object({ "idempotency-key": Key }),
        body: ExecRequest,
        produces: ["application/json", EXEC_STREAM_TYPE],
        response: { 200: ExecOutcome },
      },
    },
    (request, reply) => answerRaw(context, request, reply, (response) => begin(context, request, response)),
  );
  addListing(app, context);
  addEnds(app, context);
  addAttachments(app, context);
}

async function begin(
  context: RouteContext,
  request: FastifyRequest<{ Body: ExecRequest; Params: { machine: string } }>,
  response: FastifyReply["raw"],
): Promise<void> {
  const call = await callOf(context, request);
  const asked: ExecAsked = {
    request: request.body,
    idempotencyKey: readIdempotencyKey(request.headers["idempotency-key"]),
    rawBody: request.rawBody ?? Buffer.alloc(0),
  };
  const { detach = false, stream = false } = request.body;
  if (detach && stream) {
    throw new SandpoolError("invalid_request", "detach and stream are both true, expected one of them at most", {
      hint: "detach answers at once; attach to the exec to see what it writes",
    });
  }
  if (stream) await streamExec(context, call, asked, response);
  else if (!detach) await runExec(context, call, asked, response);
  else {
    const { id, pid } = await startExec(context, call, asked, false);
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ id, pid }));
  }
}

function addListing(app: App, context: RouteContext): void {
  app.get(
    "/v1/machines/:machine/exec",
    { schema: { params: MachineParams, response: { 200: ExecList } } },
    async (request) => {
      const { found } = await callOf(context, request);
      return { execs: (await found.live.listExecs()).map(describeState) };
    },
  );
  app.get(
    "/v1/machines/:machine/exec/:exec",
    { schema: { params: ExecParams, querystring: ExecQuery, response: { 200: ExecOutcome } } },
    (request, reply) =>
      answerRaw(context, request, reply, async (response) => {
        const call: ExecCall = { ...(await callOf(context, request)), id: request.params.exec };
        await getExec(context, call, request.query, response);
      }),
  );
}

function addEnds(app: App, context: RouteContext): void {
  app.post(
    "/v1/machines/:machine/exec/:exec/signal",
    { schema: { params: ExecParams, body: SignalExecRequest, response: { 200: SignalledExec } } },
    async (request) => {
      const { found } = await callOf(context, request);
      const { signal = "TERM", tree = true } = request.body;
      return await found.live.signalExec(request.params.exec, signal, tree);
    },
  );
  app.delete(
    "/v1/machines/:machine/exec/:exec",
    { schema: { params: ExecParams, response: { 200: DeletedExec } } },
    async (request) => deleteExec(context, { ...(await callOf(context, request)), id: request.params.exec }),
  );
  app.delete(
    "/v1/machines/:machine/exec",
    {
      schema: {
        params: MachineParams,
        headers: Type.Object({ "idempotency-key": Key }),
        response: { 200: DeletedExec },
        description: "ends what the Idempotency-Key began, or keeps it from beginning",
      },
    },
    async (request) => {
      const key = readIdempotencyKey(request.headers["idempotency-key"]);
      return await deleteExecOfKey(context, await callOf(context, request), key);
    },
  );
}

/** What comes here did not ask for a WebSocket, but `/openapi.json` lists them. */
function addAttachments(app: App, context: RouteContext): void {
  for (const [url, params] of [
    ["/v1/machines/:machine/exec/attach", MachineParams],
    ["/v1/machines/:machine/exec/:exec/attach", ExecParams],
  ] as const) {
    app.route({
      method: "GET",
      url,
      exposeHeadRoute: false,
      schema: { params, querystring: AttachQuery },
      handler: async (request: FastifyRequest) => {
        const { machine } = request.params as { machine: string };
        await context.machines.find(callerOf(request.raw).owner, machine);
        throw new SandpoolError(
          "upgrade_required",
          "an attachment is a WebSocket, and the request asked for no upgrade",
          {
            hint: "open ws://…/v1/machines/{machine}/exec/attach with a WebSocket client",
          },
        );
      },
    });
  }
}

async function callOf(
  context: RouteContext,
  request: FastifyRequest<{ Params: { machine: string } }>,
): Promise<Omit<ExecCall, "id">> {
  const caller = callerOf(request.raw);
  return { caller, found: await context.machines.find(caller.owner, request.params.machine) };
}
