import type { ServerResponse } from "node:http";
import { type Image, type ImageEvent, SandpoolError } from "@sandpool/protocol";
import type { ImageOptions } from "@sandpool/worker";
import type { FastifyReply, FastifyRequest } from "fastify";
import { callerOf } from "../http/gate.ts";
import { toSandpoolError } from "../http/sendError.ts";
import type { RouteContext } from "../routes/addRoutes.ts";
import { thinOut } from "./progress.ts";

const NDJSON = "application/x-ndjson";

export interface Making {
  kind: "image.build" | "image.pull" | "image.import";
  /** What the caller named. */
  name: string;
  make(options: ImageOptions): Promise<Image>;
}

/** Makes an image for a request, with progress lines where the caller takes them; given up when the caller goes away. */
export async function answerMaking(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  making: Making,
): Promise<FastifyReply | Image> {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort(new DOMException("the caller went away", "AbortError"));
  });
  const work = (options: ImageOptions): Promise<Image> => journalled(context, request, making, options);
  if (request.headers.accept?.includes(NDJSON) !== true) {
    const image = await work({ signal: gone.signal });
    return reply.code(201).send(image);
  }
  reply.hijack();
  await streamMaking(context, reply.raw, (onProgress) => work({ signal: gone.signal, onProgress }));
  return reply;
}

async function journalled(
  { journal }: RouteContext,
  request: FastifyRequest,
  { kind, name, make }: Making,
  options: ImageOptions,
): Promise<Image> {
  const operation = await journal.begin(kind, callerOf(request.raw), name);
  try {
    const image = await make(options);
    await operation.done(image.id);
    return image;
  } catch (error) {
    await operation.failed(error instanceof SandpoolError ? error.code : "internal");
    throw error;
  }
}

async function streamMaking(
  { limits, logger, metrics }: RouteContext,
  response: ServerResponse,
  work: (onProgress: NonNullable<ImageOptions["onProgress"]>) => Promise<Image>,
): Promise<void> {
  const write = (event: ImageEvent): void => {
    if (!response.destroyed) response.write(`${JSON.stringify(event)}\n`);
  };
  response.writeHead(201, { "Content-Type": NDJSON, "Cache-Control": "no-store", "X-Accel-Buffering": "no" });
  const heartbeat = setInterval(() => write({ event: "heartbeat" }), limits.heartbeatMs);
  try {
    write({ event: "image", image: await work(thinOut(response, write)) });
  } catch (thrown) {
    const error = toSandpoolError(thrown, logger);
    metrics.error(error.code);
    write({ event: "error", ...error.toWire(), status: error.status });
  } finally {
    clearInterval(heartbeat);
    response.end();
  }
}
