import type { ServerResponse } from "node:http";
import { SandpoolError } from "@sandpool/protocol";
import type { ExecOutcome } from "@sandpool/worker";
import { type ExecCall, type ExecContext, execKeyOf } from "./context.ts";
import { endExec } from "./endExec.ts";

/** What the agent may take to end a program whose time is over, before the server ends the call itself. */
const LATE_MS = 30_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Aborts when the reply's client is gone before the reply was. */
export function clientGone(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const onClose = (): void => {
    if (!response.writableFinished) controller.abort(new SandpoolError("creation_aborted", "the client went away"));
  };
  if (response.destroyed) onClose();
  else response.once("close", onClose);
  return controller.signal;
}

/**
 * Runs `work` for an exec that its client waits for: where the client goes away and nobody comes back for it, it is ended with its tree.
 * @param work resolves once the exec has ended
 */
export async function attended<Result>(
  context: ExecContext,
  call: ExecCall,
  canComeBack: boolean,
  work: () => Promise<Result>,
): Promise<Result> {
  const { attendance } = context.execs;
  const execKey = execKeyOf(call);
  let hasEnded = false;
  attendance.enter(execKey);
  try {
    const result = await work();
    hasEnded = true;
    return result;
  } finally {
    const abandoned = (): void => {
      endExec(call.found.live, call.id).catch((err: unknown) => {
        context.logger.debug(
          { err, machine: call.found.record.id, exec: call.id },
          "an exec that nobody waits for could not be ended",
        );
      });
    };
    attendance.leave(execKey, { hasEnded, canComeBack, abandoned });
  }
}

/**
 * The outcome without output. The program's own deadline is kept inside the machine, whatever becomes of the client; an agent that misses
 * it is not waited for.
 * @throws `deadline_passed`, `machine_lost`, `machine_state`, the reason of `gone`
 */
export async function waitForEnd(
  context: ExecContext,
  { found, id }: ExecCall,
  timeoutSeconds: number | null,
  gone: AbortSignal,
): Promise<ExecOutcome> {
  const lateMs = timeoutSeconds === null ? Number.POSITIVE_INFINITY : timeoutSeconds * 1000 + LATE_MS;
  const late = new AbortController();
  const timer = lateMs <= LONGEST_TIMER_MS ? setTimeout(() => late.abort(tooLate(id, lateMs)), lateMs) : undefined;
  const signal = AbortSignal.any([gone, late.signal, context.machines.endOf(found.record)]);
  try {
    return await found.live.waitExec(id, { collect: false, signal });
  } finally {
    clearTimeout(timer);
  }
}

function tooLate(id: string, lateMs: number): SandpoolError {
  return new SandpoolError("deadline_passed", `exec ${id} had not ended ${lateMs / 1000} s after its start`, {
    hint: "the machine does not answer; stop it, or look at its logs",
    details: { id },
  });
}
