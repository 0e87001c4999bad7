import { fail } from "../../fail.ts";
import type { RowRange } from "./ranges.ts";

/** What a request's `where` means for one shard. */
export interface ShardSelection {
  shard: number;
  /** Global indices, ascending; null for every row of the shard. */
  rows: readonly number[] | null;
  /** How many of the request's rows, in index order, lie in earlier shards. */
  offset: number;
  count: number;
}

export interface Selection {
  total: number;
  /** Every row of the pool is selected. */
  full: boolean;
  /** Only shards with at least one row. */
  parts: readonly ShardSelection[];
  /** `order[j]` is the request's position of the j-th row in index order; null when the request was in index order already. */
  order: readonly number[] | null;
}

export type Where = readonly boolean[] | readonly number[] | null;

/** The selection of every row; made once for a pool. */
export function selectAll(ranges: readonly RowRange[]): Selection {
  const parts = ranges.map((range, shard) => ({ shard, rows: null, offset: range.first, count: range.count }));
  return { total: ranges.reduce((sum, range) => sum + range.count, 0), full: true, parts, order: null };
}

/**
 * Turns `where` into ascending rows for each shard: booleans are a mask of length n, integers unique indices in range.
 * @throws `invalid_request` naming what was received
 */
export function selectRows(where: Where, all: Selection, ranges: readonly RowRange[]): Selection {
  if (where === null) return all;
  const { rows, order } = typeof where[0] === "boolean" ? fromMask(where, all.total) : fromIndices(where, all.total);
  const parts: ShardSelection[] = [];
  let at = 0;
  for (const [shard, range] of ranges.entries()) {
    const offset = at;
    while (at < rows.length && (rows[at] as number) < range.first + range.count) at += 1;
    const count = at - offset;
    if (count === range.count) parts.push({ shard, rows: null, offset, count });
    else if (count > 0) parts.push({ shard, rows: rows.slice(offset, at), offset, count });
  }
  return { total: rows.length, full: rows.length === all.total, parts, order };
}

/** The selected rows in index order. */
export function rowsOf(part: ShardSelection, range: RowRange): readonly number[] {
  return part.rows ?? Array.from({ length: range.count }, (_, local) => range.first + local);
}

function fromMask(where: readonly (boolean | number)[], n: number): { rows: number[]; order: null } {
  if (where.length !== n) {
    throw invalidWhere(`a mask of ${where.length} booleans`, `a mask has one boolean for each of the pool's ${n} rows`);
  }
  const rows: number[] = [];
  for (const [row, selected] of where.entries()) {
    if (typeof selected !== "boolean") throw invalidWhere("booleans and numbers mixed", "all booleans or all integers");
    if (selected) rows.push(row);
  }
  return { rows, order: null };
}

function fromIndices(where: readonly (boolean | number)[], n: number): { rows: number[]; order: number[] | null } {
  let ascending = true;
  let previous = -1;
  for (const row of where) {
    if (typeof row !== "number" || !Number.isInteger(row) || row < 0 || row >= n) {
      throw invalidWhere(`the index ${JSON.stringify(row)}`, `integers from 0 to ${n - 1}`);
    }
    if (row <= previous) ascending = false;
    previous = row;
  }
  const indices = where as readonly number[];
  if (ascending) return { rows: [...indices], order: null };
  const order = indices.map((_, position) => position).sort((a, b) => (indices[a] as number) - (indices[b] as number));
  const rows = order.map((position) => indices[position] as number);
  const twice = rows.find((row, position) => position > 0 && rows[position - 1] === row);
  if (twice !== undefined) throw invalidWhere(`the index ${twice} twice`, "each index once");
  return { rows, order };
}

function invalidWhere(received: string, expected: string): Error {
  return fail("invalid_request", `where: received ${received}; expected ${expected}.`, {
    hint: "Pass null for all rows, a list of n booleans, or a list of unique row indices.",
  });
}
