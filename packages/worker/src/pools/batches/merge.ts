import { splitValues } from "../rows/raw-json.ts";
import type { Column } from "./columns.ts";
import type { ShardResult } from "./result.ts";

const comma = Buffer.from(",");

export interface PartialResult {
  /** Global rows, ascending. */
  rows: readonly number[];
  result: ShardResult;
}

/** Merges the results of disjoint sets of one shard's rows into one, in index order. For the rare batch that is answered in two ways. */
export function mergeResults(parts: readonly PartialResult[], columns: readonly Column[]): ShardResult {
  const filled = parts.filter((part) => part.rows.length > 0);
  const places = filled
    .flatMap((part, from) => part.rows.map((row, at) => ({ row, from, at })))
    .sort((a, b) => a.row - b.row);
  const fragments = columns.map((column, index) => {
    const values = filled.map((part) => splitRows(column, part.result.fragments[index] as Buffer, part.rows.length));
    if (column.form === "members") return joinWith(comma, values.flat());
    const ordered = places.map(({ from, at }) => values[from]?.[at] as Buffer);
    return column.form === "raw" ? Buffer.concat(ordered) : joinWith(comma, ordered);
  });
  const slowest = filled
    .map((part) => part.result)
    .reduce((a, b) => (b.slowestMicroseconds > a.slowestMicroseconds ? b : a));
  return {
    rows: places.length,
    fragments,
    failed: filled.flatMap((part) => part.result.failed).sort((a, b) => a - b),
    stragglers: filled.flatMap((part) => part.result.stragglers).sort((a, b) => a - b),
    warnings: filled.flatMap((part) => part.result.warnings),
    slowestMicroseconds: slowest.slowestMicroseconds,
    slowestRow: slowest.slowestRow,
  };
}

function splitRows(column: Column, fragment: Buffer, rows: number): Buffer[] {
  if (column.form !== "raw") return splitValues(fragment);
  return Array.from({ length: rows }, (_, row) =>
    fragment.subarray(row * column.rowBytes, (row + 1) * column.rowBytes),
  );
}

function joinWith(separator: Buffer, values: readonly Buffer[]): Buffer {
  return Buffer.concat(values.flatMap((value, index) => (index === 0 ? [value] : [separator, value])));
}
