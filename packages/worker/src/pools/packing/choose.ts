import type { Packing } from "@sandpool/protocol";
import type { RowRange } from "../rows/ranges.ts";
import { countProcesses } from "./divide.ts";

/** What the first shard's agent found out about the program. */
export interface Measurement {
  /** Microseconds of one environment's step; null where none was measured. */
  stepUs: number | null;
  /** Why it was not measured. */
  reason: string | null;
  /** Whether a process of this program can hold several rows. */
  packable: boolean;
}

/** Up to here a row costs less in a process with others than the waking of a process of its own. */
const cheapStepUs = 250;
/** A further process pays once it has this much work in each batch. */
const worthAProcessUs = 500;

/** The packing of a pool that asked for a number of rows a process. */
export function fixedPacking(rowsPerProcess: number, n: number): Packing {
  return {
    requested: rowsPerProcess,
    rows_per_process: rowsPerProcess,
    processes: countProcesses(n, rowsPerProcess),
    step_us: null,
    reason: "asked for",
  };
}

/**
 * Chooses the rows a process by the time of a step: cheap environments share one process a shard, or as many more as keep the cores busy; any
 * other has a process of its own. Rule: docs/internals/packing.md, Choosing k.
 */
export function choosePacking(ranges: readonly RowRange[], cores: number, measured: Measurement): Packing {
  const n = ranges.reduce((sum, { count }) => sum + count, 0);
  const { rowsPerProcess, reason } = choose(ranges, n, cores, measured);
  return {
    requested: "auto",
    rows_per_process: rowsPerProcess,
    processes: countProcesses(n, rowsPerProcess),
    step_us: measured.stepUs,
    reason,
  };
}

function choose(
  ranges: readonly RowRange[],
  n: number,
  cores: number,
  { stepUs, reason, packable }: Measurement,
): { rowsPerProcess: number; reason: string } {
  const rows = ranges[0]?.count ?? 1;
  const alone = (why: string) => ({ rowsPerProcess: 1, reason: why });
  if (rows === 1) return alone("each shard has one row");
  if (!packable)
    return alone(`the program cannot hold several rows in one process: ${reason ?? "no reason was given"}`);
  if (stepUs === null) return alone(`a step could not be measured: ${reason ?? "no reason was given"}`);
  const took = `a step takes ${stepUs.toPrecision(3)} us`;
  if (stepUs > cheapStepUs) return alone(`${took}, more than ${cheapStepUs} us: processes of their own run at once`);
  const worth = Math.min(cores, Math.floor((n * stepUs) / worthAProcessUs));
  const rowsPerProcess = partOf(rows, Math.max(1, Math.floor(worth / ranges.length)), ranges.length);
  return { rowsPerProcess, reason: `${took}, at most ${cheapStepUs} us: rows share processes` };
}

/** With several shards the parts are equal, or a shard would begin in the middle of a process. */
function partOf(rows: number, processes: number, shards: number): number {
  let parts = Math.min(processes, rows);
  while (shards > 1 && rows % parts !== 0) parts -= 1;
  return Math.ceil(rows / parts);
}
