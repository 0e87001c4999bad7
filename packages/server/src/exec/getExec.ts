import type { ServerResponse } from "node:http";
import { SandpoolError } from "@sandpool/protocol";
import type { ExecOutcome } from "@sandpool/worker";
import type { ExecCall, ExecContext } from "./context.ts";
import { describeState } from "./outcome.ts";
import { sendOutcome } from "./runExec.ts";
import { clientGone } from "./waitExec.ts";

/**
 * Answers with an exec's outcome, and waits for it for at most `wait` seconds; one that runs on is answered as such.
 * @throws `exec_not_found`
 */
export async function getExec(
  context: ExecContext,
  call: ExecCall,
  { wait = 0, output = true }: { wait?: number; output?: boolean },
  response: ServerResponse,
): Promise<void> {
  const { found, id } = call;
  const state = (await found.live.listExecs()).find((exec) => exec.id === id);
  if (state === undefined) throw noExec(id);
  const outcome = state.state === "running" && wait === 0 ? null : await waitFor(context, call, wait, response);
  if (outcome !== null) {
    await sendOutcome(context, call, outcome, response, output);
    return;
  }
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ ...describeState(state), timed_out: false, oom_killed: false }));
}

/** Null once the time is over. */
async function waitFor(
  context: ExecContext,
  { found, id }: ExecCall,
  seconds: number,
  response: ServerResponse,
): Promise<ExecOutcome | null> {
  const over = new AbortController();
  // One that has ended is answered at once, however short the wait.
  const timer = seconds > 0 ? setTimeout(() => over.abort(), seconds * 1000) : undefined;
  const signal = AbortSignal.any([over.signal, clientGone(response), context.machines.endOf(found.record)]);
  try {
    return await found.live.waitExec(id, { collect: false, signal });
  } catch (error) {
    if (over.signal.aborted && signal.reason === over.signal.reason) return null;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

export function noExec(id: string): SandpoolError {
  return new SandpoolError("exec_not_found", `the machine has no exec ${JSON.stringify(id)}`, {
    hint: "GET …/exec lists them; finished ones are known for 10 minutes, at most 256 of them",
  });
}
