import type { PoolCore } from "../core.ts";
import { spreadOverProcesses } from "../packing/whole.ts";
import type { Shard } from "./shard.ts";

/** What a step does to the rows of a shard that was started again. */
export interface RestartedRows {
  /** They hold the error of the death. */
  failing: readonly number[];
  /** They were told of it; the autoreset mode resets them now. */
  pending: readonly number[];
  /** They were reset since. */
  ready: readonly number[];
}

/** Sorts selected rows of a shard by what a step does to them. */
export function splitRestarted(core: PoolCore, shard: Shard, selected: readonly number[]): RestartedRows {
  const unready = spreadOverProcesses(core, shard.range, shard.unready ?? new Set());
  const untold = spreadOverProcesses(core, shard.range, shard.untold);
  const isAutoreset = core.autoreset !== null;
  const isPending = (row: number): boolean => isAutoreset && !untold.has(row);
  return {
    failing: selected.filter((row) => unready.has(row) && !isPending(row)),
    pending: selected.filter((row) => unready.has(row) && isPending(row)),
    ready: selected.filter((row) => !unready.has(row)),
  };
}
