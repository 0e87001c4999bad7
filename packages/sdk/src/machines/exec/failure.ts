import { ExecFailedError } from "../../errors.ts";
import { escapeControl } from "../../escape.ts";
import type { ExecOutcome } from "./outcome.ts";

const SHOWN_CHARACTERS = 2000;

/** The error of a program that did not end with exit code 0. */
export function failureOf(outcome: ExecOutcome): ExecFailedError {
  const said = outcome.stderr.trim() === "" ? outcome.stdout : outcome.stderr;
  const tail = escapeControl(said.slice(-SHOWN_CHARACTERS).trimEnd(), { keepLines: true });
  return new ExecFailedError(
    "exec_failed",
    `The program ${outcome.ending}; expected exit code 0.${tail && `\n${tail}`}`,
    {
      outcome,
      hint: outcome.timedOut ? "Give it more timeoutSeconds; outcome has what it wrote until then." : undefined,
      details: { exec: outcome.id, exit_code: outcome.exitCode, signal: outcome.signal, timed_out: outcome.timedOut },
    },
  );
}
