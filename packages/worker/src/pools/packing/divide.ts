import { type RowRange, splitRows } from "../rows/ranges.ts";

/**
 * Splits n rows over shards of whole processes: every range but the last has a multiple of `rowsPerProcess` rows, so that only the pool's last
 * process is ever shorter. There may be fewer ranges than `shards`, never an empty one.
 *
 * @example divideRows(10, 2, 4) // [{ first: 0, count: 8 }, { first: 8, count: 2 }]
 */
export function divideRows(n: number, shards: number, rowsPerProcess: number): RowRange[] {
  const processes = Math.ceil(n / rowsPerProcess);
  return splitRows(processes, Math.min(shards, processes)).map(({ first, count }) => {
    const firstRow = first * rowsPerProcess;
    return { first: firstRow, count: Math.min(n, firstRow + count * rowsPerProcess) - firstRow };
  });
}

/** Splits n rows before the number of rows a process is known: equal ranges, but for the last, so that a process may hold a whole one. */
export function divideEvenly(n: number, shards: number): RowRange[] {
  return divideRows(n, shards, Math.ceil(n / shards));
}

/** Processes that hold `rows` rows. */
export function countProcesses(rows: number, rowsPerProcess: number): number {
  return Math.ceil(rows / rowsPerProcess);
}
