import { type CgroupHierarchy, detectCgroups } from "../../host/cgroups/detect.ts";
import { removeGroups, removeServerGroup } from "../../host/cgroups/remove.ts";
import { makeShardGroups, serverGroup } from "../../host/cgroups/shard.ts";
import { makeGroup, writeControl } from "../../host/cgroups/write.ts";
import type { MachineSpec } from "../machine.ts";

/** The host ends a sandbox only where the agent, which watches the size itself, was too late. */
const HOST_MEMORY_FACTOR = 1.15;
const PERIOD_US = 100_000;

export interface MachineGroups {
  /** Below each controller's root. */
  path: string;
  /** Where the runtime, or the shim, puts the sandbox. */
  processPath: string;
  /** Folders of `processPath`, one for each hierarchy. */
  folders: string[];
  memoryFolder: string | null;
}

/** Makes the groups of one machine; null where this host has no writable memory controller. */
export async function makeMachineGroups(
  key: string,
  spec: MachineSpec,
  processes: number,
): Promise<MachineGroups | null> {
  const hierarchy = detectCgroups();
  if (hierarchy === null) return null;
  const limits = {
    memoryBytes: Math.ceil(spec.memoryBytes * HOST_MEMORY_FACTOR),
    processes,
    cpuShares: Math.min(262_144, Math.max(2, Math.round(1024 * spec.vcpu))),
  };
  const { path, processPath } = await makeShardGroups(hierarchy, key, spec.id, limits, null);
  await limitProcessor(hierarchy, path, spec.vcpu);
  const roots = [...new Set(Object.values(hierarchy.controllers))];
  const folders = roots.map((root) => root + processPath);
  for (const folder of folders) await makeGroup(folder);
  const { memory } = hierarchy.controllers;
  return { path, processPath, folders, memoryFolder: memory === undefined ? null : memory + path };
}

/** Also of a machine whose making was cut off. Returns what could not be removed. */
export async function removeMachineGroups(key: string, id: string): Promise<string[]> {
  const hierarchy = detectCgroups();
  if (hierarchy === null) return [];
  const left = await removeGroups(hierarchy, `${serverGroup(key)}/${id}`);
  await removeServerGroup(hierarchy, serverGroup(key));
  return left;
}

async function limitProcessor(hierarchy: CgroupHierarchy, path: string, vcpu: number): Promise<void> {
  const { cpu } = hierarchy.controllers;
  if (cpu === undefined) return;
  const quota = Math.round(vcpu * PERIOD_US);
  if (hierarchy.version === 2) return await writeControl(`${cpu}${path}/cpu.max`, `${quota} ${PERIOD_US}`);
  await writeControl(`${cpu}${path}/cpu.cfs_period_us`, PERIOD_US);
  await writeControl(`${cpu}${path}/cpu.cfs_quota_us`, quota);
}
