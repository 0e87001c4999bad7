import { chmod, chown, readFile } from "node:fs/promises";
import { forEachLimited } from "../concurrency.ts";
import { readLimits } from "../limits.ts";
import type { CgroupHierarchy, ControllerName } from "./detect.ts";
import { type GroupLimits, limitGroup, limitMemory, raiseMemory } from "./limit.ts";
import { makeGroup, writeControl } from "./write.ts";

export interface RowGroups {
  /** One group for each. */
  limitsBytes: readonly number[];
  /** Of the group `states`; null: none is made. */
  statesBytes: number | null;
  /** Host ids of the sandbox's root and of the group that may enter. */
  ownerUid: number;
  enterGid: number;
}

/** The groups of one sandbox. */
export interface ShardGroups {
  /** Relative to each controller's root. */
  path: string;
  /** Where the runtime puts the first process. */
  processPath: string;
  /** Host folder with `e0 …` and `states`, null without row groups. */
  rowsFolder: string | null;
  /** Settles when the row groups are there. The folder is there before, so that a sandbox can start meanwhile. */
  rowsMade: Promise<void>;
}

/** All groups of a server lie below this one, so that a crash leaves nothing anonymous. */
export function serverGroup(key: string): string {
  return `/sandpool-${key}`;
}

/** Makes the group of one sandbox with its limits, and below it one for each row. */
export async function makeShardGroups(
  hierarchy: CgroupHierarchy,
  key: string,
  id: string,
  limits: Required<GroupLimits>,
  rows: RowGroups | null,
): Promise<ShardGroups> {
  const parent = serverGroup(key);
  const path = `${parent}/${id}`;
  await makeIn(hierarchy, parent);
  const bound = hostShare();
  await limitGroup(hierarchy, parent, bound);
  await makeIn(hierarchy, path);
  await limitGroup(hierarchy, path, {
    ...limits,
    memoryBytes: Math.min(limits.memoryBytes, bound.memoryBytes),
    processes: Math.min(limits.processes, bound.processes),
  });
  const rowsFolder = rows === null ? null : await makeRowsFolder(hierarchy, path, rows);
  const rowsMade =
    rows === null || rowsFolder === null ? Promise.resolve() : makeRowGroups(hierarchy, rowsFolder, rows);
  // Whoever waits for it later sees a failure; until then it is not an unhandled one.
  rowsMade.catch(() => undefined);
  // v2 has no processes in inner groups: the agent gets a leaf of its own. (The runtime makes it.)
  return { path, processPath: hierarchy.version === 2 ? `${path}/agent` : path, rowsFolder, rowsMade };
}

/**
 * The bound of all sandboxes of a server together: their limits may add up to more than the host has, and the server and the kernel
 * must go on. As one entity in the root's queue they would weigh as much as a single thread; they get a thread's weight a core.
 */
function hostShare(): Required<GroupLimits> {
  const { memoryBytes, pids, threads, cores } = readLimits();
  return {
    memoryBytes: Math.floor((memoryBytes * 15) / 16),
    processes: Math.floor((Math.min(pids ?? 32_768, threads ?? 32_768) * 3) / 4),
    cpuShares: Math.min(262_144, 1024 * cores),
  };
}

async function makeIn(hierarchy: CgroupHierarchy, path: string): Promise<void> {
  const controllers = Object.entries(hierarchy.controllers) as [ControllerName, string][];
  if (hierarchy.version === 1) {
    for (const root of new Set(controllers.map(([, root]) => root))) await makeGroup(root + path);
    return;
  }
  const root = controllers[0]?.[1] ?? "";
  await enableControllers(
    `${root}${path.slice(0, path.lastIndexOf("/"))}`,
    controllers.map(([name]) => name),
  );
  await makeGroup(root + path);
}

/** v2: a controller reaches children only through the parent's subtree_control. */
async function enableControllers(folder: string, names: readonly string[]): Promise<void> {
  const file = `${folder}/cgroup.subtree_control`;
  const enabled = (await readFile(file, "utf8")).trim().split(/\s+/);
  const missing = names.filter((name) => !enabled.includes(name));
  if (missing.length > 0) await writeControl(file, missing.map((name) => `+${name}`).join(" "));
}

/**
 * Who may move a process: the kernel asks for write permission on the target's cgroup.procs and,
 * - v1: that the writer's effective uid is the moved process's uid or saved uid (a process that writes `0` moves itself);
 * - v2: write permission on the cgroup.procs of the nearest common ancestor too, and that the writer's cgroup namespace
 *   holds both groups (cgroup_attach_permissions), which is why a sandbox with row groups keeps the host's cgroup namespace on v2.
 * Only cgroup.procs changes hands, and on v1 `tasks`, its twin for single threads: to write there does not stop every fork of the
 * host meanwhile, which takes milliseconds. The folders and limits stay the host root's, an id unmapped inside, so that no capability
 * of the sandbox's user namespace reaches them.
 */
async function makeRowsFolder(hierarchy: CgroupHierarchy, path: string, rows: RowGroups): Promise<string> {
  const memory = hierarchy.controllers.memory ?? "";
  const shard = memory + path;
  const folder = `${shard}/rows`;
  if (hierarchy.version === 2) await enableControllers(shard, ["memory"]);
  await makeGroup(folder);
  if (hierarchy.version === 2) {
    await enableControllers(folder, ["memory"]);
    await handOver(2, shard, rows);
  }
  return folder;
}

async function makeRowGroups(hierarchy: CgroupHierarchy, folder: string, rows: RowGroups): Promise<void> {
  const groups: [name: string, bytes: number][] = rows.limitsBytes.map((bytes, index) => [`e${index}`, bytes]);
  if (rows.statesBytes !== null) groups.push(["states", rows.statesBytes]);
  await forEachLimited(groups, 8, async ([name, bytes]) => {
    const group = `${folder}/${name}`;
    await makeGroup(group);
    await limitMemory(hierarchy.version, group, bytes);
    await handOver(hierarchy.version, group, rows);
  });
}

/** Raises the limits of the groups `e0 …`, as many as there are figures. */
export async function raiseRowGroups(
  hierarchy: CgroupHierarchy,
  folder: string,
  limitsBytes: readonly number[],
): Promise<void> {
  await forEachLimited([...limitsBytes.entries()], 8, ([index, bytes]) =>
    raiseMemory(hierarchy.version, `${folder}/e${index}`, bytes),
  );
}

async function handOver(version: 1 | 2, group: string, rows: RowGroups): Promise<void> {
  for (const entry of version === 1 ? ["cgroup.procs", "tasks"] : ["cgroup.procs"]) {
    await chown(`${group}/${entry}`, rows.ownerUid, rows.enterGid);
    await chmod(`${group}/${entry}`, 0o664);
  }
}
