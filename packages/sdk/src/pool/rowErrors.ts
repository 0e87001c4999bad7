import { SandpoolError } from "../errors.ts";
import { escapeControl } from "../escape.ts";
import { isValueObject, type Value, type ValueObject } from "../values/types.ts";

export type RowErrorKind = "timeout" | "crash" | "oom" | "exception" | "protocol" | "lost";

/** Why one row failed. Texts come from the sandbox as they are: escape them before a terminal. */
export interface RowError {
  kind: RowErrorKind;
  op: string;
  message: string;
  /** The exception's class, for kind `exception`. */
  type: string | null;
  exitCode: number | null;
  signal: string | number | null;
  stderrTail: string;
  traceback: string | null;
  deadlineSeconds: number | null;
  cpuSeconds: number | null;
  /** True when the row had failed before and was stepped without a reset. */
  repeated: boolean;
}

/** With `errors: "raise"`: at least one row failed. `errors` has every failed row, `result` what the call would have returned. */
export class RowsFailedError extends SandpoolError {
  readonly errors: ReadonlyMap<number, RowError>;
  /** The `StepResult`, `ResetResult`, `CallResult`, `ReceivedResult`, `RowReset` or `RowStep`, the other rows included. */
  readonly result: unknown;

  constructor(errors: ReadonlyMap<number, RowError>, result: unknown) {
    const [row, error] = [...errors][0] as [number, RowError];
    super(
      "row_failed",
      `${errors.size} row(s) failed; row ${row}: ${error.kind} in ${error.op}: ${escapeControl(error.message)}`,
      {
        hint: `See .errors and pool.logs(${row}), the other rows are in .result; reset the failed rows before stepping them again.`,
        details: { rows: [...errors.keys()] },
      },
    );
    this.errors = errors;
    this.result = result;
  }
}

/** The errors of the rows named in `failed`, read from their infos. */
export function readRowErrors(failed: readonly number[], infoOf: (row: number) => ValueObject): Map<number, RowError> {
  return new Map(failed.map((row) => [row, toRowError(infoOf(row).sandpool_error ?? null)]));
}

/** An error as the wire has it. */
export function toRowError(value: Value): RowError {
  const error = isValueObject(value) ? value : {};
  const text = (name: string): string | null => (typeof error[name] === "string" ? error[name] : null);
  const figure = (name: string): number | null => (typeof error[name] === "number" ? error[name] : null);
  return {
    kind: (text("kind") ?? "protocol") as RowErrorKind,
    op: text("op") ?? "",
    message: text("message") ?? "",
    type: text("type"),
    exitCode: figure("exit_code"),
    signal: text("signal") ?? figure("signal"),
    stderrTail: text("stderr_tail") ?? "",
    traceback: text("traceback"),
    deadlineSeconds: figure("deadline_s"),
    cpuSeconds: figure("cpu_s"),
    repeated: error.repeated === true,
  };
}

/** Tells the user of failed rows: by an exception, or by one warning for each kind; escaped, since the text comes from the sandbox. */
export class RowReporter {
  private readonly raises: boolean;
  /** Whether the user wants warnings. */
  readonly warns: boolean;
  private readonly seen = new Set<string>();

  constructor({ raises, warns }: { raises: boolean; warns: boolean }) {
    this.raises = raises;
    this.warns = warns;
  }

  /** Gives the result back, or throws `RowsFailedError` with it. */
  report<Result>(result: Result, errors: ReadonlyMap<number, RowError>): Result {
    if (errors.size === 0) return result;
    if (this.raises) throw new RowsFailedError(errors, result);
    if (this.warns) this.warn(errors);
    return result;
  }

  private warn(errors: ReadonlyMap<number, RowError>): void {
    for (const kind of new Set([...errors.values()].map((error) => error.kind))) {
      if (this.seen.has(kind)) continue;
      this.seen.add(kind);
      const rows = [...errors].filter(([, error]) => error.kind === kind);
      const [row, first] = rows[0] as [number, RowError];
      const reason = escapeControl(first.traceback ?? first.message, { keepLines: true });
      emitSandpoolWarning(
        `${rows.length} row(s) failed with ${kind} in ${first.op}; the first is row ${row}: ${reason}`,
        `Later failures of this kind are only in .errors of each result. See pool.logs(${row}).`,
      );
    }
  }
}

/** A warning of Node's, of type `SandpoolWarning`. */
export function emitSandpoolWarning(message: string, detail = ""): void {
  process.emitWarning(message, { type: "SandpoolWarning", detail });
}
