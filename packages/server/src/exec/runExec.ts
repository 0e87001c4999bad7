import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { ExecOutcome } from "@sandpool/worker";
import type { ExecCall, ExecContext } from "./context.ts";
import { describeOutcome } from "./outcome.ts";
import { type ExecAsked, startExec } from "./startExec.ts";
import { attended, clientGone, waitForEnd } from "./waitExec.ts";
import { outcomeStream } from "./writeOutcome.ts";

/** Starts a program, waits for its end and answers with its outcome and output. */
export async function runExec(
  context: ExecContext,
  call: Omit<ExecCall, "id">,
  asked: ExecAsked,
  response: ServerResponse,
): Promise<void> {
  const gone = clientGone(response);
  const { id } = await startExec(context, call, asked, false);
  const known = { ...call, id };
  const outcome = await attended(context, known, asked.idempotencyKey !== null, () =>
    waitForEnd(context, known, asked.request.timeout ?? null, gone),
  );
  await sendOutcome(context, known, outcome, response, true);
}

/**
 * Answers with an outcome. Output is fetched from the machine only once the server has room for it, and given up where the client takes
 * none of it for long.
 */
export async function sendOutcome(
  context: ExecContext,
  { found, id }: ExecCall,
  outcome: ExecOutcome,
  response: ServerResponse,
  output: boolean,
): Promise<void> {
  const keptBytes = [outcome.stdout, outcome.stderr].reduce((sum, { bytes, dropped }) => sum + bytes - dropped, 0);
  const release = output && keptBytes > 0 ? await context.execs.budget.take(keptBytes) : null;
  const stopWatching = endWhenStalled(response, context.limits.bodyIdleMs);
  try {
    const collected = release === null ? outcome : await found.live.waitExec(id, { collect: true });
    const { stdout, stderr } = collected;
    response.writeHead(200, { "Content-Type": "application/json", "Cache-Control": "no-store" });
    if (!output) response.end(JSON.stringify(describeOutcome(collected)));
    else {
      const contents = { stdout: stdout.content ?? Buffer.alloc(0), stderr: stderr.content ?? Buffer.alloc(0) };
      await pipeline(outcomeStream(describeOutcome(collected), contents), response).catch(() => response.destroy());
    }
  } finally {
    stopWatching();
    release?.();
  }
}

/** A client that takes nothing must not hold what others wait for. */
function endWhenStalled(response: ServerResponse, idleMs: number): () => void {
  const { socket } = response;
  let sentBytes = -1;
  const timer = setInterval(() => {
    if (socket === null || !response.headersSent) return;
    if (socket.bytesWritten === sentBytes) response.destroy();
    sentBytes = socket.bytesWritten;
  }, idleMs);
  return () => clearInterval(timer);
}
