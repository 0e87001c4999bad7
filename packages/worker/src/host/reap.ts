import { existsSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { findAgent } from "../agent/find.ts";
import { endSandbox, shimSettingsOf } from "../drivers/gvisor/end.ts";
import { findShim } from "../drivers/machines/shim.ts";
import { deleteContainer, findRuntime } from "../drivers/namespace/runtime.ts";
import { detectCgroups } from "./cgroups/detect.ts";
import { removeGroups, removeServerGroup } from "./cgroups/remove.ts";
import { serverGroup } from "./cgroups/shard.ts";
import { foldersOfServer, type HostFolders, hostFolders, isOwnerAlive, withServersLock } from "./folders.ts";
import { mountsBelow, readMounts } from "./mountinfo.ts";
import { runTool } from "./run.ts";
import { reclaimStaleSlots } from "./uids/reclaim.ts";

export interface ReapReport {
  /** Ids of sandboxes of a dead server that were removed. */
  sandboxes: string[];
  uidSlots: number[];
  /** Sandboxes of a server that still runs on the same data folder; never touched. */
  alive: string[];
  /** What could not be removed, one sentence each. */
  left: string[];
}

/**
 * Removes what a dead server of this data folder, or of any other of this user, left on the host: containers, cgroups, mounts, folders and uid claims.
 * To be called at start, before the first sandbox. Whose server is dead is told by pid, start time and boot, and containers are
 * killed by their runtime, which compares start times too.
 */
export async function reapLeftovers(dataDir: string): Promise<ReapReport> {
  const folders = hostFolders(dataDir);
  const report: ReapReport = { sandboxes: [], uidSlots: [], alive: [], left: [] };
  await reapServer(folders, report);
  const gone = await deadServers(folders);
  for (const server of gone) await reapServer(server, report);
  for (const server of gone) await removeServer(server);
  const keys = new Set([folders, ...gone].map(({ key }) => key));
  report.uidSlots = await reclaimStaleSlots(folders.uids, (owner) => keys.has(owner.key)).catch((error: Error) => {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") report.left.push(error.message);
    return [];
  });
  return report;
}

async function reapServer(folders: HostFolders, report: ReapReport): Promise<void> {
  const alive: string[] = [];
  for (const id of await readdir(folders.sandboxes).catch(() => [])) {
    if (await isOwnerAlive(`${folders.sandboxes}/${id}`)) alive.push(id);
    else await reapSandbox(folders, id, report);
  }
  report.alive.push(...alive);
  const cgroups = detectCgroups();
  if (cgroups !== null && alive.length === 0) await removeServerGroup(cgroups, serverGroup(folders.key));
}

/** Dead servers on other data folders, which perhaps nobody starts on again: those of interrupted checks lie in temporary ones. */
async function deadServers(folders: HostFolders): Promise<HostFolders[]> {
  const dead: HostFolders[] = [];
  for (const name of await readdir(folders.shared).catch(() => [])) {
    if (!/^[0-9a-f]{12}$/.test(name) || name === folders.key) continue;
    const server = foldersOfServer(name);
    // Without an owner it is just being made.
    if (existsSync(`${server.own}/owner.json`) && !(await isOwnerAlive(server.own))) dead.push(server);
  }
  return dead;
}

async function removeServer(server: HostFolders): Promise<void> {
  await withServersLock(async () => {
    const held = await Promise.all([server.sandboxes, server.machines].map((path) => readdir(path).catch(() => [])));
    // Machines outlive their server: they wait for its next start.
    if (held.flat().length === 0 && !(await isOwnerAlive(server.own)))
      await rm(server.own, { recursive: true, force: true });
  });
}

async function reapSandbox(folders: HostFolders, id: string, report: ReapReport): Promise<void> {
  const folder = `${folders.sandboxes}/${id}`;
  const left = [
    ...(await endContainer(folders, id)),
    ...(await freeGroups(folders, id)),
    ...(await unmountBelow(folder)),
  ];
  if (left.length > 0) {
    report.left.push(...left);
    return;
  }
  await rm(folder, { recursive: true, force: true });
  report.sandboxes.push(id);
}

async function endContainer(folders: HostFolders, id: string): Promise<string[]> {
  const folder = `${folders.sandboxes}/${id}`;
  if (existsSync(shimSettingsOf(folder))) {
    const shim = findShim(findAgent());
    return shim === null
      ? [`sandbox ${id}: the shim's binary was not found to end it with`]
      : await endSandbox(shim, folder);
  }
  const runtime = await findRuntime();
  if (runtime === null) return [`container ${id}: no OCI runtime is installed to remove it with`];
  const deleted = await deleteContainer(runtime, folders.runtimeRoot, id);
  return deleted.code === 0 ? [] : [`container ${id}: ${deleted.stderr.trim().slice(0, 300)}`];
}

async function freeGroups(folders: HostFolders, id: string): Promise<string[]> {
  const cgroups = detectCgroups();
  return cgroups === null ? [] : await removeGroups(cgroups, `${serverGroup(folders.key)}/${id}`);
}

async function unmountBelow(folder: string): Promise<string[]> {
  const left: string[] = [];
  for (const point of mountsBelow(folder, readMounts()).reverse()) {
    const finished = await runTool("umount", ["-l", "--", point]);
    if (finished.code !== 0) left.push(`mount ${point}: ${finished.stderr.trim()}`);
  }
  return left;
}
