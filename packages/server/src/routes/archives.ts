import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";
import { SandpoolError, SHA256_PATTERN, StoredArchive } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ sha256: Type.String({ pattern: SHA256_PATTERN }) });

export function addArchiveRoutes(app: App, { worker, journal, limits }: RouteContext): void {
  app.head(
    "/v1/archives/:sha256",
    { schema: { params: Params }, config: { swagger: { exposeHeadRoute: true } } },
    async (request, reply) => {
      const { sha256 } = request.params;
      if (await worker.archives.has(callerOf(request.raw).owner, sha256)) return reply.code(200).send();
      throw new SandpoolError("archive_not_found", `the archive ${sha256} has not been uploaded`, {
        hint: "PUT it to this address",
      });
    },
  );
  app.register(async (plain) => {
    const scope = plain as App;
    scope.addContentTypeParser("application/zstd", (_request, payload, done) => done(null, payload));
    scope.removeContentTypeParser(/^application\/json/);
    scope.put(
      "/v1/archives/:sha256",
      { schema: { params: Params, consumes: ["application/zstd"], response: { 201: StoredArchive } } },
      async (request, reply) => {
        const caller = callerOf(request.raw);
        const operation = await journal.begin("archive.put", caller, request.params.sha256);
        try {
          const body = boundedBody(request.raw, limits.archiveBytes, limits.bodyIdleMs);
          const stored = await worker.archives.put(caller.owner, request.params.sha256, body);
          await operation.done(stored.sha256);
          return reply.code(201).send(stored);
        } catch (error) {
          await operation.failed(error instanceof SandpoolError ? error.code : "internal");
          throw error;
        }
      },
    );
  });
}

/** The body as a stream that ends with an error when it is too long, stands still or breaks off. */
function boundedBody(request: IncomingMessage, limitBytes: number, idleMs: number): Transform {
  let receivedBytes = 0;
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      receivedBytes += chunk.length;
      timer.refresh();
      done(receivedBytes > limitBytes ? tooLarge(receivedBytes, limitBytes) : null, chunk);
    },
  });
  const timer = setTimeout(() => bounded.destroy(brokenOff(`stood still for ${idleMs} ms`)), idleMs);
  bounded.once("close", () => {
    clearTimeout(timer);
    request.unpipe(bounded);
  });
  request.once("close", () => {
    if (!request.complete) bounded.destroy(brokenOff(`broke off after ${receivedBytes} bytes`));
  });
  if (Number(request.headers["content-length"]) > limitBytes) {
    bounded.destroy(tooLarge(Number(request.headers["content-length"]), limitBytes));
  } else {
    request.pipe(bounded);
  }
  return bounded;
}

function tooLarge(receivedBytes: number, limitBytes: number): SandpoolError {
  return new SandpoolError(
    "archive_too_large",
    `the archive has ${receivedBytes} bytes or more, the limit is ${limitBytes}`,
    {
      hint: "leave data sets out of the environment's folder",
      details: { received_bytes: receivedBytes, limit_bytes: limitBytes },
    },
  );
}

function brokenOff(how: string): SandpoolError {
  return new SandpoolError("request_timeout", `the archive ${how}`, { hint: "upload it again" });
}
