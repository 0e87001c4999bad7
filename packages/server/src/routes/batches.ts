import {
  BATCH_CONTENT_TYPE,
  BatchReply,
  CallRequest,
  ForkRequest,
  ResetRequest,
  RestoreRequest,
  SaveReply,
  SaveRequest,
  StepRequest,
} from "@sandpool/protocol";
import { type TSchema, Type } from "typebox";
import { handleBatch } from "../batches/handleBatch.ts";
import type { App } from "../http/app.ts";
import { answerError } from "../http/serveRequests.ts";
import type { BatchOperation } from "../metrics.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ id: Type.String() });

/**
 * The batches as ordinary routes. Requests rarely come here (`serveRequests` takes them before), but the router knows
 * them, `/openapi.json` describes them, and an unusual spelling of an address reaches the same handler.
 */
export function addBatchRoutes(app: App, context: RouteContext): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
    scope.setValidatorCompiler(() => () => true);
    addOne(scope as App, context, "POST", "step", StepRequest);
    addOne(scope as App, context, "POST", "reset", ResetRequest);
    addOne(scope as App, context, "POST", "call", CallRequest);
    addOne(scope as App, context, "POST", "fork", ForkRequest);
    addOne(scope as App, context, "POST", "save", SaveRequest);
    addOne(scope as App, context, "POST", "restore", RestoreRequest);
    addOne(scope as App, context, "GET", "observations");
  });
}

function addOne(
  app: App,
  context: RouteContext,
  method: "GET" | "POST",
  operation: BatchOperation,
  body?: TSchema,
): void {
  const isSave = operation === "save";
  const consumes = operation === "step" ? ["application/json", BATCH_CONTENT_TYPE] : ["application/json"];
  app.route({
    method,
    url: `/v1/pools/:id/${isSave ? "states" : operation}`,
    exposeHeadRoute: false,
    schema: {
      params: Params,
      ...(body ? { body, consumes } : {}),
      produces: isSave ? ["application/json"] : ["application/json", BATCH_CONTENT_TYPE],
      response: isSave ? { 201: SaveReply } : { 200: BatchReply },
    },
    handler: async (request, reply) => {
      reply.hijack();
      try {
        await handleBatch(context, operation, (request.params as { id: string }).id, request.raw, reply.raw);
      } catch (error) {
        answerError(context, request.raw, reply.raw, error);
      }
    },
  });
}
