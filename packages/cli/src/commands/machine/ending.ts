import { ExecFailedError, type ExecOutcome, SandpoolError } from "sandpool";
import { CommandFailure, EXIT, reportFailure, UsageError } from "../../output/failure.ts";
import { type Output, safe } from "../../output/output.ts";
import type { Relayed } from "./relay.ts";

/** What shells, `timeout` and `env` use for the same. */
const CODES = { timedOut: 124, own: 125, notExecutable: 126, notFound: 127 } as const;

/** The exit code that a program's outcome is passed on as. */
export function exitCodeOf(outcome: ExecOutcome): number {
  return outcome.timedOut ? CODES.timedOut : (outcome.exitCode ?? CODES.own);
}

/** Says on standard error what an exit code alone does not, and returns it. */
export function report(output: Output, machine: string, exec: string, relayed: Relayed): number {
  if ("exitCode" in relayed) return relayed.exitCode;
  if ("detached" in relayed) {
    output.note(`Let go of it; it runs on. Join it: sandpool machine attach ${safe(machine)} ${safe(exec)}`);
    return EXIT.ok;
  }
  const { outcome } = relayed;
  if (outcome.timedOut || outcome.oomKilled) output.note(`sandpool: the program ${outcome.ending}.`);
  if (outcome.left.length > 0 && output.interactive) {
    output.note(
      `sandpool: ${outcome.left.length} of its processes run on; see "sandpool machine ps ${safe(machine)}".`,
    );
  }
  return exitCodeOf(outcome);
}

/** A failure of ours, not the program's: 125, or as shells do 127 for a program that is not there and 126 for one that cannot run. */
export function reportOwnFailure(error: unknown, output: Output, machine: string): number {
  const code = reportFailure(withCommandHint(error, machine), { json: output.json });
  if (error instanceof UsageError) return code;
  if (!(error instanceof ExecFailedError) || error.details.what !== "program") return CODES.own;
  return isMissing(error.details.errno) ? CODES.notFound : CODES.notExecutable;
}

function isMissing(errno: unknown): boolean {
  return errno === "ENOENT" || errno === 2;
}

function withCommandHint(error: unknown, machine: string): unknown {
  const exec = error instanceof SandpoolError ? error.details.exec : undefined;
  if (!(error instanceof SandpoolError) || error.code !== "connection_failed" || typeof exec !== "string") return error;
  return new CommandFailure(
    error.code,
    error.message,
    `Join it again: sandpool machine attach ${machine} ${exec}`,
    error,
  );
}
