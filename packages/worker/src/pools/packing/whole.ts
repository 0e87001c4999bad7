import { isDeepStrictEqual } from "node:util";
import { fail } from "../../fail.ts";
import type { PoolCore } from "../core.ts";
import type { RowRange } from "../rows/ranges.ts";
import { rowsOf, type Selection } from "../rows/select.ts";

/** The selected rows of one process, and where they stand among all selected ones in index order. */
interface ProcessPart {
  /** The rows that the process has. */
  range: RowRange;
  rows: readonly number[];
  at: number;
}

/**
 * Refuses a selection that a vectorised environment cannot serve, before anything is sent: it steps all rows of its process, and resets a part
 * of them only where it says so. Does nothing in any other pool.
 * @throws `vectorized_unsupported`
 */
export function checkWhole(core: PoolCore, selection: Selection, operation: "step" | "reset", hard = false): void {
  const { vector } = core;
  if (vector === null || selection.full) return;
  if (operation === "reset" && vector.partial_reset && !hard) return;
  const cut = processParts(core, selection).find(({ range, rows }) => rows.length < range.count);
  if (cut === undefined) return;
  const { first, count } = cut.range;
  const what = hard ? "a hard reset replaces" : operation === "step" ? "steps" : "resets";
  const subject = hard ? `${what} the process of ${vector.class}` : `${vector.class} ${what}`;
  throw fail(
    "vectorized_unsupported",
    `where: received ${listed(cut.rows)} of the rows ${first} to ${first + count - 1}; ${subject} with all ${count} rows at once.`,
    {
      hint: hint(operation, vector.class),
      details: {
        class: vector.class,
        received: cut.rows,
        first,
        count,
        rows_per_process: core.packing.rows_per_process,
      },
    },
  );
}

/**
 * Refuses a list of seeds that would need a seed for each row of a vectorised environment that takes one alone.
 * @param seeds one for each selected row in index order
 * @throws `vectorized_unsupported`
 */
export function checkSeeds(core: PoolCore, selection: Selection, seeds: readonly (number | null)[] | null): void {
  const { vector } = core;
  if (vector === null || vector.row_seeds || seeds === null) return;
  for (const { rows, at } of processParts(core, selection)) {
    const seed = seeds[at] ?? null;
    const expected = rows.map((row) => (seed === null ? null : seed + row - (rows[0] as number)));
    const received = seeds.slice(at, at + rows.length);
    if (expected.every((value, index) => value === received[index])) continue;
    throw fail(
      "vectorized_unsupported",
      `seed: received ${listed(received)} for the rows ${listed(rows)}; ${vector.class} takes one seed for a process, s, and gives its row i the seed s + i.`,
      {
        hint: `Pass one integer, or seeds that count up within a process; a class that takes a list declares serve(make_vec=…, row_seeds=True).`,
        details: { class: vector.class, received, expected },
      },
    );
  }
}

/** Refuses options that differ within a process of a vectorised environment that takes one for all its rows. @throws `vectorized_unsupported` */
export function checkOptions(core: PoolCore, selection: Selection, options: unknown): void {
  const { vector } = core;
  if (vector === null || vector.row_seeds || !Array.isArray(options)) return;
  const places = optionPlaces(core, selection, options);
  const differing = processParts(core, selection).find(({ rows, at }) =>
    rows.some((_, index) => !isDeepStrictEqual(options[places(at + index)], options[places(at)])),
  );
  if (differing === undefined) return;
  throw fail(
    "vectorized_unsupported",
    `options: received a list of ${options.length}; ${vector.class} takes one for all rows of its process, such as ${listed(differing.rows)}.`,
    {
      hint: "Pass one dict for all rows, or the same one for all rows of a process.",
      details: { class: vector.class, received: options.length },
    },
  );
}

/** Where in a list of options, one for each selected row or for each row of the pool, that of a selected row stands. */
function optionPlaces(core: PoolCore, selection: Selection, options: readonly unknown[]): (at: number) => number {
  if (options.length === selection.total) return (at) => selection.order?.[at] ?? at;
  const rows = processParts(core, selection).flatMap((part) => part.rows);
  return (at) => rows[at] as number;
}

/** Rows and all others that share a process with one of them, where rows of a process go together; else the rows themselves. */
export function spreadOverProcesses(core: PoolCore, range: RowRange, rows: ReadonlySet<number>): ReadonlySet<number> {
  if (core.vector === null || core.packing.rows_per_process === 1) return rows;
  const spread = new Set<number>();
  for (const row of rows) {
    const { first, count } = processOf(row, range, core.packing.rows_per_process);
    for (let other = first; other < first + count; other += 1) spread.add(other);
  }
  return spread;
}

function processParts(core: PoolCore, selection: Selection): ProcessPart[] {
  const perProcess = core.packing.rows_per_process;
  const parts: ProcessPart[] = [];
  for (const part of selection.parts) {
    const range = core.plan.ranges[part.shard] as RowRange;
    const rows = rowsOf(part, range);
    for (let from = 0; from < rows.length; ) {
      const process = processOf(rows[from] as number, range, perProcess);
      let to = from;
      while (to < rows.length && (rows[to] as number) < process.first + process.count) to += 1;
      parts.push({ range: process, rows: rows.slice(from, to), at: part.offset + from });
      from = to;
    }
  }
  return parts;
}

function processOf(row: number, range: RowRange, perProcess: number): RowRange {
  const first = row - ((row - range.first) % perProcess);
  return { first, count: Math.min(perProcess, range.first + range.count - first) };
}

function hint(operation: "step" | "reset", name: string): string {
  if (operation === "step")
    return "Select all rows of a process or none; one row a process (envs_per_process=1) can be selected freely.";
  return `Select all rows of a process or none, or let ${name} declare that it can: serve(make_vec=…, partial_reset=True).`;
}

function listed(values: readonly (number | null)[]): string {
  const most = 8;
  const shown = values.slice(0, most).map(String).join(", ");
  return values.length > most ? `[${shown}, … ${values.length} of them]` : `[${shown}]`;
}
