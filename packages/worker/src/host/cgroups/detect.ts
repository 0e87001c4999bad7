import { accessSync, constants, readFileSync } from "node:fs";
import { type MountEntry, readMounts } from "../mountinfo.ts";

export type ControllerName = "memory" | "pids" | "cpu";

/** How this host bounds a group of processes. */
export interface CgroupHierarchy {
  version: 1 | 2;
  /** Folder of each controller's root; on v2 the same for all. */
  controllers: Partial<Record<ControllerName, string>>;
  /** Every mounted root: an OCI runtime on v1 makes its group in each of them. */
  roots: string[];
}

const CONTROLLERS: readonly ControllerName[] = ["memory", "pids", "cpu"];

/** The hierarchy that owns the memory controller; null when none is mounted writable. A hybrid host counts as v1. */
export function detectCgroups(mounts: readonly MountEntry[] = readMounts()): CgroupHierarchy | null {
  const first = detectVersion1(mounts);
  if (first.controllers.memory !== undefined) return first;
  return detectVersion2(mounts);
}

function detectVersion1(mounts: readonly MountEntry[]): CgroupHierarchy {
  const hierarchy: CgroupHierarchy = { version: 1, controllers: {}, roots: [] };
  for (const mount of mounts) {
    if (mount.type === "cgroup2" || mount.type === "cgroup") hierarchy.roots.push(mount.point);
    if (mount.type !== "cgroup" || !isWritable(mount.point)) continue;
    for (const name of CONTROLLERS) if (mount.superOptions.includes(name)) hierarchy.controllers[name] ??= mount.point;
  }
  return hierarchy;
}

function detectVersion2(mounts: readonly MountEntry[]): CgroupHierarchy | null {
  const mount = mounts.find((entry) => entry.type === "cgroup2" && isWritable(entry.point));
  if (mount === undefined) return null;
  const available = readWords(`${mount.point}/cgroup.controllers`);
  if (!available.includes("memory")) return null;
  const controllers: CgroupHierarchy["controllers"] = {};
  for (const name of CONTROLLERS) if (available.includes(name)) controllers[name] = mount.point;
  return { version: 2, controllers, roots: [mount.point] };
}

export function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function readWords(file: string): string[] {
  try {
    return readFileSync(file, "utf8").trim().split(/\s+/);
  } catch {
    return [];
  }
}
