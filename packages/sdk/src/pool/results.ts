import type { Value, ValueObject } from "../values/types.ts";
import { type BatchReply, columnOf } from "./batchReply.ts";
import { type RowError, readRowErrors } from "./rowErrors.ts";
import type { Selection } from "./selection.ts";

/** The errors of failed rows, by row of the pool. */
export type RowErrors = ReadonlyMap<number, RowError>;

/** What `reset` returns: always n rows; rows that were not selected keep their last observation and have an empty info. */
export interface ResetResult<Observations = Value> {
  /** One `NdArray` `[n, …]`, or a dict or `Tuple` of them; in a list pool a list of n values. */
  observations: Observations;
  infos: ValueObject[];
  errors: RowErrors;
}

/** What `step` returns: n rows in index order. Rows that were not selected have reward 0, false flags and `sandpool_skipped` in their info. */
export interface StepResult<Observations = Value> {
  /** One `NdArray` `[n, …]`, or a dict or `Tuple` of them; in a list pool a list of n values. */
  observations: Observations;
  /** n of them; NaN and infinities as the environment gave them. */
  rewards: Float64Array;
  /** `terminated[i] || truncated[i]`. */
  dones: boolean[];
  terminated: boolean[];
  truncated: boolean[];
  infos: ValueObject[];
  errors: RowErrors;
}

/** What `call` and its relatives return: one result a row, null for rows that failed or were not selected. */
export interface CallResult {
  results: Value[];
  errors: RowErrors;
}

/** The errors of a reply. */
export function errorsOf(reply: BatchReply): RowErrors {
  return readRowErrors(reply.failed, (row) => reply.infos.get(row) ?? {});
}

/** One info a row of the pool. */
export function fullInfos(reply: BatchReply | null, n: number): ValueObject[] {
  return Array.from({ length: n }, (_, row) => reply?.infos.get(row) ?? {});
}

/** A step's columns spread over all n rows. Throws `protocol_violation` for columns of another length. */
export function fullStep(reply: BatchReply, selection: Selection, n: number, observations: Value): StepResult {
  const { rows, count } = selection;
  const terminated = spreadRows(columnOf("terminated", reply.terminated, count), selection, n, false);
  const truncated = spreadRows(columnOf("truncated", reply.truncated, count), selection, n, false);
  const rewards = columnOf("rewards", reply.rewards, count);
  return {
    observations,
    rewards: rows === null ? rewards : Float64Array.from(spreadRows(rewards, selection, n, 0)),
    dones: terminated.map((done, row) => done || truncated[row] === true),
    terminated,
    truncated,
    infos: markSkipped(fullInfos(reply, n), selection),
    errors: errorsOf(reply),
  };
}

/** A step of no row. */
export function emptyStep(selection: Selection, n: number, observations: Value): StepResult {
  const flags = (): boolean[] => new Array<boolean>(n).fill(false);
  return {
    observations,
    rewards: new Float64Array(n),
    dones: flags(),
    terminated: flags(),
    truncated: flags(),
    infos: markSkipped(fullInfos(null, n), selection),
    errors: new Map(),
  };
}

/** A column of the selected rows as a list of n. */
export function spreadRows<Item>(column: ArrayLike<Item>, selection: Selection, n: number, missing: Item): Item[] {
  if (selection.rows === null) return Array.from(column);
  const full = new Array<Item>(n).fill(missing);
  for (const [place, row] of selection.rows.entries()) full[row] = column[place] ?? missing;
  return full;
}

function markSkipped(infos: ValueObject[], { rows }: Selection): ValueObject[] {
  if (rows === null) return infos;
  const selected = new Set(rows);
  return infos.map((info, row) => (selected.has(row) ? info : { sandpool_skipped: true }));
}
