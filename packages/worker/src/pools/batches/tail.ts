import type { ShardResult } from "./result.ts";

/** What a reply says beside its columns. */
export interface BatchTail {
  failed: number[];
  warnings: string[];
  /** Of a fork or restore: one for each row. */
  reseeded?: (readonly string[] | null)[];
  timing: { worker_ms: number; slowest_ms: number; slowest_row: number | null; stragglers: number[] };
}

export function joinTails(results: readonly ShardResult[], startedMs: number): BatchTail {
  const failed: number[] = [];
  const stragglers: number[] = [];
  const warnings: string[] = [];
  let reseeded: (readonly string[] | null)[] | undefined;
  let slowest: ShardResult | undefined;
  for (const result of results) {
    if (result.failed.length > 0) failed.push(...result.failed);
    if (result.stragglers.length > 0) stragglers.push(...result.stragglers);
    if (result.reseeded !== undefined) reseeded = [...(reseeded ?? []), ...result.reseeded];
    if (result.warnings.length > 0) warnings.push(...result.warnings);
    if (slowest === undefined || result.slowestMicroseconds > slowest.slowestMicroseconds) slowest = result;
  }
  return {
    failed,
    warnings,
    ...(reseeded === undefined ? {} : { reseeded }),
    timing: {
      worker_ms: Math.round((performance.now() - startedMs) * 1000) / 1000,
      slowest_ms: (slowest?.slowestMicroseconds ?? 0) / 1000,
      slowest_row: slowest?.slowestRow ?? null,
      stragglers,
    },
  };
}
