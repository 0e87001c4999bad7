import type { ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { EXEC_STREAM_TYPE } from "@sandpool/protocol";
import type { StartedExec } from "@sandpool/worker";
import { toSandpoolError } from "../http/sendError.ts";
import type { ExecCall, ExecContext } from "./context.ts";
import { execFrame, jsonFrame } from "./frames.ts";
import { describeOutcome } from "./outcome.ts";
import { type OutputSource, readOutput } from "./outputs.ts";
import { type ExecAsked, startExec } from "./startExec.ts";
import { attended, clientGone, waitForEnd } from "./waitExec.ts";

interface Attached {
  stdout: Readable | null;
  stderr: Readable | null;
  dropped: { stdout: number; stderr: number };
}

/**
 * Starts a program and answers with frames of what it writes, as it writes it. Nothing is dropped on the way: a client that does not read
 * holds the program up, and the server keeps no more than a window of it.
 */
export async function streamExec(
  context: ExecContext,
  call: Omit<ExecCall, "id">,
  asked: ExecAsked,
  response: ServerResponse,
): Promise<void> {
  const gone = clientGone(response);
  const started = await startExec(context, call, asked, true);
  const known = { ...call, id: started.id };
  try {
    const relayed = () => relay(context, known, started, asked.request.timeout ?? null, response, gone);
    await attended(context, known, asked.idempotencyKey !== null, relayed);
  } catch (thrown) {
    if (gone.aborted || !response.headersSent) throw thrown;
    const error = toSandpoolError(thrown, context.logger);
    context.metrics.error(error.code);
    await write(response, jsonFrame(error.toWire()));
  }
  response.end();
}

async function relay(
  context: ExecContext,
  call: ExecCall,
  started: StartedExec,
  timeoutSeconds: number | null,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  const { stdout, stderr, dropped } = await attach(call, started);
  const source = (kind: "stdout" | "stderr", stream: Readable | null): OutputSource => {
    return { live: call.found.live, id: call.id, kind, stream, isWhole: dropped[kind] === 0, gone };
  };
  gone.throwIfAborted();
  const headers = { "Content-Type": EXEC_STREAM_TYPE, "Cache-Control": "no-store", "X-Accel-Buffering": "no" };
  response.writeHead(200, headers);
  await write(response, jsonFrame({ id: started.id, pid: started.pid, dropped }));
  await Promise.all([pump(source("stdout", stdout), response), pump(source("stderr", stderr), response)]);
  await write(response, jsonFrame(describeOutcome(await waitForEnd(context, call, timeoutSeconds, gone))));
}

/** One that was begun before shows what was kept of it first. */
async function attach({ found, id }: ExecCall, started: StartedExec): Promise<Attached> {
  const { stdout, stderr } = started;
  if (!started.repeated) return { stdout, stderr, dropped: { stdout: 0, stderr: 0 } };
  stdout?.destroy();
  stderr?.destroy();
  return await found.live.attachExec(id, "start");
}

async function pump(source: OutputSource, response: ServerResponse): Promise<void> {
  for await (const chunk of readOutput(source)) await write(response, execFrame(source.kind, chunk));
}

/** Resolves when the client can take more, or is gone. */
async function write(response: ServerResponse, frame: Buffer): Promise<void> {
  // Not corked: a corked reply says that it is full and may then never say that it has room.
  if (response.destroyed || response.write(frame)) return;
  await new Promise<void>((resolve) => {
    const wake = (): void => {
      response.off("drain", wake).off("close", wake);
      resolve();
    };
    response.on("drain", wake).on("close", wake);
  });
}
