import type { Column } from "../batches/columns.ts";
import type { ShardResult } from "../batches/result.ts";
import type { RowRange } from "../rows/ranges.ts";

/** Why every row of a shard fails: its sandbox is gone. */
export interface ShardFailure {
  kind: "crash" | "oom" | "lost" | "protocol";
  message: string;
  exitCode: number | null;
  signal: string | null;
  stderrTail: string;
}

/** Where nothing says why. */
export const unknownFailure: ShardFailure = {
  kind: "crash",
  message: "The sandbox ended.",
  exitCode: null,
  signal: null,
  stderrTail: "",
};

/** Why a reset fails that waited for a shard's restart in vain. */
export function stillStarting({ first, count }: RowRange): ShardFailure {
  const message = `The sandbox of rows ${first} to ${first + count - 1} is still being started again.`;
  return { ...unknownFailure, kind: "lost", message };
}

/** The fragments of rows that failed with their sandbox, in the form in which an agent would have sent them. */
export function failedResult(
  columns: readonly Column[],
  rows: readonly number[],
  operation: string,
  failure: ShardFailure,
  isRepeated: (row: number) => boolean,
): ShardResult {
  const [first, again] = [false, true].map((repeated) =>
    JSON.stringify({ sandpool_error: rowError(failure, operation, repeated) }),
  ) as [string, string];
  // Observations are what is kept, not the result of an operation: nothing failed there.
  const infos = rows.map((row) => (operation === "observe" ? "{}" : isRepeated(row) ? again : first));
  return {
    rows: rows.length,
    fragments: columns.map((column) => failedFragment(column, rows, infos, operation !== "reset")),
    failed: operation === "observe" ? [] : rows,
    stragglers: [],
    warnings: [],
    slowestMicroseconds: 0,
    slowestRow: null,
  };
}

/** A row's error as the agents write it; `kind` comes first, metrics rely on it. */
export function rowError(failure: ShardFailure, operation: string, repeated: boolean): Record<string, unknown> {
  return {
    kind: failure.kind,
    op: operation,
    message: failure.message,
    exit_code: failure.exitCode,
    signal: failure.signal,
    stderr_tail: failure.stderrTail,
    traceback: null,
    type: null,
    deadline_s: null,
    cpu_s: null,
    ...(repeated ? { repeated: true } : {}),
  };
}

/** @param ends whether the failure ends an episode: of a stream's reset the flags are false */
function failedFragment(column: Column, rows: readonly number[], infos: readonly string[], ends: boolean): Buffer {
  if (column.form === "raw") {
    return Buffer.alloc(column.rowBytes * rows.length, column.name === "truncated" && ends ? 1 : 0);
  }
  if (column.form === "members")
    return Buffer.from(rows.flatMap((row, at) => (infos[at] === "{}" ? [] : [`"${row}":${infos[at]}`])).join(","));
  if (column.name === "infos") return Buffer.from(infos.join(","));
  const value = { rewards: "0", terminated: "false", truncated: String(ends) }[column.name] ?? "null";
  return Buffer.from(new Array<string>(rows.length).fill(value).join(","));
}

/** The fragments of rows that were reset instead of stepped: reward 0, flags false, the rest as the reset gave it. */
export function asStepResult(
  reset: ShardResult,
  resetColumns: readonly Column[],
  stepColumns: readonly Column[],
): ShardResult {
  const fragments = stepColumns.map((column) => {
    const at = resetColumns.findIndex((candidate) => isSameColumn(candidate, column));
    if (at !== -1) return reset.fragments[at] as Buffer;
    if (column.form === "raw") return Buffer.alloc(column.rowBytes * reset.rows);
    return Buffer.from(new Array<string>(reset.rows).fill(column.name === "rewards" ? "0" : "false").join(","));
  });
  return { ...reset, fragments };
}

function isSameColumn(a: Column, b: Column): boolean {
  return a.name === b.name && a.form === b.form && (a.form !== "raw" || b.form !== "raw" || a.field === b.field);
}
