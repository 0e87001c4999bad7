import type { Value, ValueObject } from "../values/types.ts";
import type { BatchReply } from "./batchReply.ts";
import { type RowError, readRowErrors } from "./rowErrors.ts";
import type { Selection } from "./selection.ts";

/** What `reset` returns: always n rows; rows that were not selected keep their last observation and have an empty info. */
export interface ResetResult {
  observations: Value;
  infos: ValueObject[];
  errors: ReadonlyMap<number, RowError>;
}

/** What `step` returns: n rows in index order. `dones[i]` is `terminated[i] || truncated[i]`. */
export interface StepResult {
  observations: Value;
  rewards: Float64Array;
  dones: boolean[];
  terminated: boolean[];
  truncated: boolean[];
  infos: ValueObject[];
  errors: ReadonlyMap<number, RowError>;
}

/** What `call` and its relatives return: one result a row, null for rows that failed or were not selected. */
export interface CallResult {
  results: Value[];
  errors: ReadonlyMap<number, RowError>;
}

/** The errors of a reply. */
export function errorsOf(reply: BatchReply): Map<number, RowError> {
  return readRowErrors(reply.failed, (row) => reply.infos.get(row) ?? {});
}

/** One info a row of the pool. */
export function fullInfos(reply: BatchReply | null, n: number): ValueObject[] {
  return Array.from({ length: n }, (_, row) => reply?.infos.get(row) ?? {});
}

/** A step's columns spread over all n rows; rows that were not stepped get reward 0, false flags and `sandpool_skipped`. */
export function fullStep(reply: BatchReply | null, selection: Selection, n: number, observations: Value): StepResult {
  const spread = <Item>(column: ArrayLike<Item> | null | undefined, missing: Item): Item[] =>
    spreadRows(column ?? [], selection, n, missing);
  const terminated = spread(reply?.terminated, false);
  const truncated = spread(reply?.truncated, false);
  const selected = new Set(selection.rows ?? []);
  const infos = fullInfos(reply, n).map((info, row) =>
    selection.rows === null || selected.has(row) ? info : { sandpool_skipped: true },
  );
  return {
    observations,
    rewards: Float64Array.from(spread(reply?.rewards, 0)),
    dones: terminated.map((done, row) => done || truncated[row] === true),
    terminated,
    truncated,
    infos,
    errors: reply === null ? new Map() : errorsOf(reply),
  };
}

/** A column of the selected rows as a list of n. */
export function spreadRows<Item>(column: ArrayLike<Item>, selection: Selection, n: number, missing: Item): Item[] {
  if (selection.rows === null) return Array.from({ length: n }, (_, row) => column[row] ?? missing);
  const full = new Array<Item>(n).fill(missing);
  for (const [place, row] of selection.rows.entries()) full[row] = column[place] ?? missing;
  return full;
}
