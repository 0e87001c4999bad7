import { SandpoolError } from "../errors.ts";
import { columnOf, decodeReply } from "../pool/batchReply.ts";
import type { ObservationColumns, Observations } from "../pool/observations.ts";
import { errorsOf, type RowErrors } from "../pool/results.ts";
import type { BatchTiming } from "../pool/timing.ts";
import type { Value, ValueObject } from "../values/types.ts";

/** What a row was asked. */
export type RowOperation = "step" | "reset";

/** One message's rows: k of them in each column, `infos` and `errors` by row of the pool, only where there is one. */
export interface Part {
  rows: readonly number[];
  ops: readonly RowOperation[];
  observations: ObservationColumns;
  rewards: Float64Array;
  terminated: readonly boolean[];
  truncated: readonly boolean[];
  infos: ReadonlyMap<number, ValueObject>;
  errors: RowErrors;
}

/** What `recv` returns: k rows in the order in which they finished. */
export interface ReceivedResult<Observations = Value> {
  /** Which row of the pool each is; can be the `where` of the next `send`. */
  index: number[];
  /** What each was asked; a reset's reward is 0 and its flags are false. */
  ops: RowOperation[];
  /** One `NdArray` `[k, …]`, or a dict or `Tuple` of them; in a list pool a list of k values. */
  observations: Observations;
  /** k of them. */
  rewards: Float64Array;
  dones: boolean[];
  terminated: boolean[];
  truncated: boolean[];
  /** k of them; a reset's is the reset's info. */
  infos: ValueObject[];
  /** By row of the pool. */
  errors: RowErrors;
}

/** A message of results, read: its number, its rows, and how long they took. */
export interface ReadResult {
  number: number;
  part: Part;
  timing: BatchTiming;
}

/** Reads a message of results and takes its observations in, unless `isKnown` says that it came before. Throws `protocol_violation` for anything out of form. */
export function readResult(
  data: Buffer,
  n: number,
  observations: Observations,
  isKnown: (number: number) => boolean,
): ReadResult | null {
  const reply = decodeReply(data);
  const { number, where: rows, ops } = reply.members;
  if (!isCount(number)) throw violation(`a result with the number ${JSON.stringify(number)}`);
  if (isKnown(number)) return null;
  if (!areRows(rows, n) || !Array.isArray(ops) || ops.length !== rows.length) {
    throw violation(`a result for the rows ${JSON.stringify(rows)?.slice(0, 200)} of ${n}`);
  }
  if (reply.observations === null) throw violation("a result without observations");
  const part = {
    rows,
    ops: ops as RowOperation[],
    observations: observations.take(reply.observations, rows, reply.failed),
    rewards: columnOf("rewards", reply.rewards, rows.length),
    terminated: columnOf("terminated", reply.terminated, rows.length),
    truncated: columnOf("truncated", reply.truncated, rows.length),
    infos: reply.infos,
    errors: errorsOf(reply),
  };
  return { number, part, timing: reply.timing };
}

/** Some rows of a part as a part. */
export function pickPlaces(part: Part, places: readonly number[], observations: Observations): Part {
  const pick = <Item>(column: ArrayLike<Item>): Item[] => places.map((place) => column[place] as Item);
  const rows = pick(part.rows);
  return {
    rows,
    ops: pick(part.ops),
    observations: observations.pick(part.observations, places),
    rewards: Float64Array.from(pick(part.rewards)),
    terminated: pick(part.terminated),
    truncated: pick(part.truncated),
    infos: part.infos,
    errors: new Map([...part.errors].filter(([row]) => rows.includes(row))),
  };
}

/** The rows of all parts, one after another, in arrays of their own. */
export function joinParts(parts: readonly Part[], observations: Observations): ReceivedResult {
  const terminated = parts.flatMap((part) => part.terminated);
  const truncated = parts.flatMap((part) => part.truncated);
  return {
    index: parts.flatMap((part) => part.rows),
    ops: parts.flatMap((part) => part.ops),
    observations: observations.join(parts.map((part) => part.observations)),
    rewards: Float64Array.from(parts.flatMap((part) => [...part.rewards])),
    dones: terminated.map((done, place) => done || truncated[place] === true),
    terminated,
    truncated,
    infos: parts.flatMap((part) => part.rows.map((row) => part.infos.get(row) ?? {})),
    errors: new Map(parts.flatMap((part) => [...part.errors])),
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function areRows(value: unknown, n: number): value is number[] {
  if (!Array.isArray(value) || new Set(value).size !== value.length) return false;
  return value.every((row) => Number.isSafeInteger(row) && row >= 0 && row < n);
}

function violation(received: string): SandpoolError {
  return new SandpoolError("protocol_violation", `The stream sent ${received}, which no version of it does.`, {
    hint: "Update the client and the server to the same version.",
  });
}
