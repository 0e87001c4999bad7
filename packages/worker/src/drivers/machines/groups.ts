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
  const { path, processPath } = await makeBeside(() => makeShardGroups(hierarchy, key, spec.id, limits, null));
  await limitProcessor(hierarchy, path, spec.vcpu);
  const roots = [...new Set(Object.values(hierarchy.controllers))];
  const folders = roots.map((root) => root + processPath);
  for (const folder of folders) await makeGroup(folder);
  const { memory } = hierarchy.controllers;
  return { path, processPath, folders, memoryFolder: memory === undefined ? null : memory + path };
}

/**
 * Also of a machine whose making was cut off.
 * @param isShared whether anything else may be in the server's group
 * @returns what could not be removed
 */
export async function removeMachineGroups(key: string, id: string, isShared: boolean): Promise<string[]> {
  const hierarchy = detectCgroups();
  if (hierarchy === null) return [];
  const left = await removeGroups(hierarchy, `${serverGroup(key)}/${id}`);
  if (!isShared) await removeServerGroup(hierarchy, serverGroup(key));
  return left;
}

/** The last machine or pool that goes takes the server's group along, perhaps just now. */
async function makeBeside<Groups>(make: () => Promise<Groups>): Promise<Groups> {
  for (let again = 2; ; again -= 1) {
    try {
      return await make();
    } catch (error) {
      const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
      if (code !== "ENOENT" || again === 0) throw error;
    }
  }
}

async function limitProcessor(hierarchy: CgroupHierarchy, path: string, vcpu: number): Promise<void> {
  const { cpu } = hierarchy.controllers;
  if (cpu === undefined) return;
  const quota = Math.round(vcpu * PERIOD_US);
  if (hierarchy.version === 2) return await writeControl(`${cpu}${path}/cpu.max`, `${quota} ${PERIOD_US}`);
  await writeControl(`${cpu}${path}/cpu.cfs_period_us`, PERIOD_US);
  await writeControl(`${cpu}${path}/cpu.cfs_quota_us`, quota);
}
