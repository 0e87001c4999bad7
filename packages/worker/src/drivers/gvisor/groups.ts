import type { CgroupHierarchy } from "../../host/cgroups/detect.ts";
import { makeShardGroups } from "../../host/cgroups/shard.ts";
import { makeGroup } from "../../host/cgroups/write.ts";
import type { SandboxSpec } from "../driver.ts";

/** Stub processes and the sentry's own threads come on top of what runs inside. */
const HOST_PROCESSES_FACTOR = 2;
const HOST_PROCESSES_OWN = 512;
/** The sentry's and the gofer's own memory: about 40 MiB, and something for every process inside. */
const HOST_MEMORY_OWN_BYTES = 128 * 2 ** 20;
const HOST_MEMORY_FACTOR = 1.15;

/** Makes the groups of one sandbox and says which folders it has to enter. Inside there is none for a row. */
export async function makeGvisorGroups(hierarchy: CgroupHierarchy, key: string, spec: SandboxSpec): Promise<string[]> {
  const limits = {
    memoryBytes: Math.ceil(spec.memoryBytes * HOST_MEMORY_FACTOR) + HOST_MEMORY_OWN_BYTES,
    processes: spec.processes * HOST_PROCESSES_FACTOR + HOST_PROCESSES_OWN,
    cpuShares: spec.cpuShares ?? 1024,
  };
  const { processPath } = await makeShardGroups(hierarchy, key, spec.id, limits, null);
  const roots = [...new Set(Object.values(hierarchy.controllers))];
  const folders = roots.map((root) => root + processPath);
  for (const folder of folders) await makeGroup(folder);
  return folders;
}
