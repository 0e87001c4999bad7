import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import swagger from "@fastify/swagger";
import { type TypeBoxTypeProvider, TypeBoxValidatorCompiler } from "@fastify/type-provider-typebox";
import { ERROR_CODES, SandpoolError, VERSION } from "@sandpool/protocol";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifySchemaCompiler,
  type RawServerDefault,
} from "fastify";
import type { TSchema } from "typebox";
import { isJsonType, mediaType } from "../batches/requests.ts";
import type { ServerOptions } from "../options.ts";
import { addRoutes, type RouteContext } from "../routes/addRoutes.ts";
import { explainInvalid, type SchemaFault } from "./explainInvalid.ts";
import "./requestTypes.ts";
import { createHttpServer } from "./httpServer.ts";
import { parseJson } from "./parseJson.ts";
import { readBody } from "./readBody.ts";
import { answerError, serveRequests } from "./serveRequests.ts";

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** The whole HTTP side, ready to listen. */
export async function buildApp(context: RouteContext, tls: ServerOptions["tls"]): Promise<App> {
  const app: App = Fastify({
    serverFactory: (handler): Server =>
      createHttpServer(context.limits, tls, serveRequests(context, handler as RequestListener)),
    logger: false,
    requestIdHeader: false,
    bodyLimit: context.limits.smallBodyBytes,
    routerOptions: { maxParamLength: 256, ignoreTrailingSlash: false },
    forceCloseConnections: true,
    // What the router itself refuses, such as an address that is no text, reaches no error handler.
    frameworkErrors: (error, request, reply) => answerFault(context, error, request, reply),
    return503OnClosing: false,
  }).withTypeProvider<TypeBoxTypeProvider>();
  app.setValidatorCompiler(compileValidator);
  app.setSerializerCompiler(() => JSON.stringify);
  app.decorateRequest("rawBody", null);
  answerInOurForm(app, context);
  acceptJson(app, context);
  await describeApi(app);
  addRoutes(app, context);
  await app.ready();
  return app;
}

/** TypeBox's validator with our words for what it refuses. */
const compileValidator: FastifySchemaCompiler<TSchema> = (route) => {
  const validate = TypeBoxValidatorCompiler(route);
  return (value: unknown) => {
    const result: unknown = validate(value);
    const faults = (result as { error?: SchemaFault[] }).error;
    return faults === undefined
      ? (result as { value: unknown })
      : { error: explainInvalid(faults, value, route.httpPart) };
  };
};

function answerInOurForm(app: App, context: RouteContext): void {
  app.setErrorHandler((error, request, reply) => answerFault(context, error, request, reply));
  app.setNotFoundHandler((request, reply) => {
    reply.hijack();
    const { pathname } = new URL(request.url, "http://unused");
    const methods = ["GET", "PUT", "POST", "PATCH", "DELETE"].filter((method) => {
      return app.findRoute({ method, url: pathname }) !== null || app.hasRoute({ method, url: pathname });
    });
    answerError(context, request.raw, reply.raw, noRoute(request.method, request.url, methods));
  });
}

function answerFault(context: RouteContext, error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  reply.hijack();
  answerError(context, request.raw, reply.raw, fromFastify(error, request));
}

function noRoute(method: string, url: string, methods: string[]): SandpoolError {
  const code = methods.length > 0 ? "method_not_allowed" : "not_found";
  return new SandpoolError(code, `there is no ${method} ${url.slice(0, 200)}`, {
    hint: methods.length > 0 ? `use ${methods.join(" or ")}` : "/openapi.json lists every route",
  });
}

function fromFastify(error: unknown, request: FastifyRequest): unknown {
  const { code, statusCode, message } = error as { code?: string; statusCode?: number; message?: string };
  if (error instanceof SandpoolError || code === undefined || Object.hasOwn(ERROR_CODES, code)) return error;
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return mediaType("Content-Type", request.headers["content-type"]);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new SandpoolError("invalid_request", String(message), { hint: "/openapi.json has every route's form" });
  }
  return error;
}

/** JSON bodies: read within the route's limit, kept as they came in `rawBody`, parsed without merging. */
function acceptJson(app: App, context: RouteContext): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(/^application\/json/, async (request: FastifyRequest, _payload: IncomingMessage) => {
    const type = request.headers["content-type"] ?? "";
    if (!isJsonType(type)) throw mediaType("Content-Type", type);
    const encoding = request.headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity") throw mediaType("Content-Encoding", encoding);
    const limitBytes = request.routeOptions.bodyLimit ?? context.limits.smallBodyBytes;
    const body = await readBody(request.raw, limitBytes, context.limits);
    request.rawBody = body;
    if (body.length === 0) return undefined;
    return parseJson(body, context.limits.jsonDepth);
  });
}

async function describeApi(app: App): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title: "Sandpool", version: VERSION, description: "Self-hosted pools of isolated RL environments" },
      components: { securitySchemes: { key: { type: "http", scheme: "bearer" } } },
      security: [{ key: [] }],
    },
  });
}
