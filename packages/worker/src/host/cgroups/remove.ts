import { readdir, readFile, rmdir } from "node:fs/promises";
import { sleep } from "../concurrency.ts";
import type { CgroupHierarchy } from "./detect.ts";

const RETRY_MS = 10;
const LIMIT_MS = 3_000;

/**
 * Removes the group and everything below it in every hierarchy. The kernel frees the last dead process a moment after its exit,
 * so EBUSY is tried again for up to three seconds.
 * @returns folders that could not be removed, with the pids still in them.
 */
export async function removeGroups(hierarchy: CgroupHierarchy, path: string): Promise<string[]> {
  const roots = new Set([...hierarchy.roots, ...Object.values(hierarchy.controllers)]);
  const left = await Promise.all([...roots].map((root) => removeTree(root + path)));
  return left.flat();
}

/** Removes an empty server group; one that still holds sandboxes stays. */
export async function removeServerGroup(hierarchy: CgroupHierarchy, path: string): Promise<void> {
  for (const root of new Set([...hierarchy.roots, ...Object.values(hierarchy.controllers)])) {
    await rmdir(root + path).catch(() => undefined);
  }
}

async function removeTree(folder: string): Promise<string[]> {
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    if (await removeOnce(folder)) return [];
    if (performance.now() > deadline) return [`${folder} (pids ${await readPids(folder)})`];
    await sleep(RETRY_MS);
  }
}

async function removeOnce(folder: string): Promise<boolean> {
  try {
    await rmdir(folder);
    return true;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") return true;
    if (code !== "EBUSY" && code !== "ENOTEMPTY") throw error;
  }
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const children = entries.filter((entry) => entry.isDirectory());
  if (children.length === 0) return false;
  const removed = await Promise.all(children.map((child) => removeOnce(`${folder}/${child.name}`)));
  return removed.every(Boolean) && (await removeOnce(folder));
}

async function readPids(folder: string): Promise<string> {
  const text = await readFile(`${folder}/cgroup.procs`, "utf8").catch(() => "");
  return text.trim().split("\n").join(" ") || "none";
}
