import { type PoolPlan, shardMemoryBytes } from "../plan.ts";
import type { RowRange } from "../rows/ranges.ts";
import { countProcesses } from "./divide.ts";

/** The limit of each process's memory group: its rows' memory together, never more than the shard has. */
export function memoryGroups(plan: PoolPlan, index: number, rowsPerProcess: number): number[] {
  const { count } = plan.ranges[index] as RowRange;
  const mostBytes = shardMemoryBytes(plan, index);
  return Array.from({ length: countProcesses(count, rowsPerProcess) }, (_, process) => {
    const rows = Math.min(rowsPerProcess, count - process * rowsPerProcess);
    return Math.min(rows * plan.memoryBytes, mostBytes);
  });
}
