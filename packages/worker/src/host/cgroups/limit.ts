import type { CgroupHierarchy } from "./detect.ts";
import { writeControl, writeControlIfPresent } from "./write.ts";

export interface GroupLimits {
  memoryBytes?: number;
  processes?: number;
  /** v1 scale: 2..262144, 1024 the default. */
  cpuShares?: number;
}

/** Writes the limits of one group, given relative to each controller's root (`/name/child`). Swap never adds to memory. */
export async function limitGroup(hierarchy: CgroupHierarchy, path: string, limits: GroupLimits): Promise<void> {
  const { memory, pids, cpu } = hierarchy.controllers;
  if (memory !== undefined && limits.memoryBytes !== undefined) {
    await limitMemory(hierarchy.version, memory + path, limits.memoryBytes);
  }
  if (pids !== undefined && limits.processes !== undefined)
    await writeControl(`${pids}${path}/pids.max`, limits.processes);
  if (cpu !== undefined && limits.cpuShares !== undefined) {
    if (hierarchy.version === 1) await writeControl(`${cpu}${path}/cpu.shares`, limits.cpuShares);
    else await writeControl(`${cpu}${path}/cpu.weight`, sharesToWeight(limits.cpuShares));
  }
}

export async function limitMemory(version: 1 | 2, folder: string, bytes: number): Promise<void> {
  if (version === 2) {
    await writeControl(`${folder}/memory.max`, bytes);
    await writeControlIfPresent(`${folder}/memory.swap.max`, 0);
    return;
  }
  // memory + swap may never be below memory, so this order; the second file exists only with swap accounting.
  await writeControl(`${folder}/memory.limit_in_bytes`, bytes);
  await writeControlIfPresent(`${folder}/memory.memsw.limit_in_bytes`, bytes);
}

/** A limit that is not below the one before. */
export async function raiseMemory(version: 1 | 2, folder: string, bytes: number): Promise<void> {
  // The other way round: memory may not be above memory + swap at any moment.
  if (version === 1) await writeControlIfPresent(`${folder}/memory.memsw.limit_in_bytes`, bytes);
  await writeControl(`${folder}/${version === 1 ? "memory.limit_in_bytes" : "memory.max"}`, bytes);
}

/** The OCI runtimes' conversion: [2, 262144] onto [1, 10000]. */
export function sharesToWeight(shares: number): number {
  return 1 + Math.floor(((shares - 2) * 9999) / 262142);
}
