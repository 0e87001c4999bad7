import type { CgroupHierarchy } from "./detect.ts";
import { removeGroups, removeServerGroup } from "./remove.ts";
import { makeShardGroups, serverGroup } from "./shard.ts";

/**
 * Makes the groups of a sandbox with one row and removes them. Mounted writable is not enough: a service manager may have kept
 * controllers, and a container's root group holds processes, which on v2 may have no children with limits.
 * @returns what the kernel said, null when it works.
 */
export async function tryGroups(hierarchy: CgroupHierarchy, key: string): Promise<string | null> {
  const trial = `${key}-trial-${process.pid}`;
  const limits = { memoryBytes: 2 ** 26, processes: 8, cpuShares: 1024 };
  try {
    const row = { limitsBytes: [2 ** 25], statesBytes: null, ownerUid: 0, enterGid: 0 };
    const groups = await makeShardGroups(hierarchy, trial, "sandbox", limits, row);
    await groups.rowsMade;
    return null;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await removeGroups(hierarchy, `${serverGroup(trial)}/sandbox`);
    await removeServerGroup(hierarchy, serverGroup(trial));
  }
}
