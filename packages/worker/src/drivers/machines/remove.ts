import type { ChildProcess } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { lstat, readdir, rm, rmdir, unlink } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { HostFolders } from "../../host/folders.ts";
import { readStartTime } from "../../host/identity.ts";
import { removeTree } from "../../host/remove-tree.ts";
import { FIRST_UID, readSlotOwner, UIDS_PER_SLOT } from "../../host/uids/claim.ts";
import { DriverError } from "../driver.ts";
import { connectShim, isExit, readExit } from "./connect.ts";
import type { MachineFolders } from "./folders.ts";
import { removeMachineGroups } from "./groups.ts";
import { shimPid, startShim } from "./shim.ts";

const KILL_LIMIT_MS = 120_000;
/** The shim's own limits for deleting and killing add up to less. */
const ANSWER_LIMIT_MS = 25_000;
const LEAVE_LIMIT_MS = 5_000;
const POLL_MS = 5;

/**
 * Ends and frees, in the order in which nothing can be used again before it is empty: processes, groups, files, uids.
 * @throws `sandbox_cleanup_failed` when something is left; its uid range then stays claimed
 */
export async function removeMachine(
  host: HostFolders,
  folders: MachineFolders,
  id: string,
  shim: string | null,
  child: ChildProcess | null,
): Promise<void> {
  if (existsSync(folders.shimSettings)) await endMachine(folders, shim, child);
  const claims = await claimsOf(host, id);
  const slots = claims.filter((name) => /^\d+$/.test(name)).map(Number);
  const left = slots.flatMap((slot) => livingPids(slot).map((pid) => `process ${pid}`));
  left.push(...(await removeMachineGroups(host.key, id, await holdsOthers(host, id))));
  if (left.length > 0) {
    throw new DriverError(
      "sandbox_cleanup_failed",
      `machine ${id} could not be removed; left: ${left.join(", ")}`,
      "a process in uninterruptible sleep blocks it; delete it again later",
      { left },
    );
  }
  await removeData(folders);
  await removeTree(folders.folder);
  for (const name of claims) await unlink(`${host.uids}/${name}`).catch(() => undefined);
}

/** What is behind a link that somebody planted there is not ours; the link goes. */
async function removeData({ data, layer }: MachineFolders): Promise<void> {
  const found = await lstat(data).catch(() => null);
  if (found?.isSymbolicLink()) return await unlink(data);
  await removeTree(layer);
  await rm(`${data}/disk.tar`, { force: true });
  // A saved disk may lie in it, which is the caller's.
  await rmdir(data).catch(() => undefined);
}

async function holdsOthers(host: HostFolders, id: string): Promise<boolean> {
  const held = await Promise.all([host.machines, host.sandboxes].map((path) => readdir(path).catch(() => [])));
  return held.flat().some((name) => name !== id);
}

/** Has the shim kill everything, or one that adopts where none runs; a shim that does not answer is killed first. */
async function endMachine(folders: MachineFolders, shim: string | null, started: ChildProcess | null): Promise<void> {
  let child = started;
  const signal = AbortSignal.timeout(KILL_LIMIT_MS);
  while ((await readExit(folders)) === null) {
    signal.throwIfAborted();
    const isRunning =
      (child !== null && child.exitCode === null && child.signalCode === null) || (await shimPid(folders)) !== null;
    if (!isRunning) {
      if (shim === null)
        throw new DriverError("driver_unavailable", "the shim's binary was not found", "build the agent");
      child = startShim(shim, folders, true);
    }
    await askToKill(folders, child, AbortSignal.any([signal, AbortSignal.timeout(ANSWER_LIMIT_MS)]));
    const silent = (await readExit(folders)) === null ? await shimPid(folders) : null;
    if (silent !== null) process.kill(silent, "SIGKILL");
  }
  await waitUntilLeft(folders);
}

async function askToKill(folders: MachineFolders, child: ChildProcess | null, signal: AbortSignal): Promise<void> {
  // A failure here is a shim that ended meanwhile: the caller looks again.
  const connected = await connectShim(folders, child, signal).catch(() => null);
  if (connected === null || isExit(connected)) return;
  await connected.talk.ask({ op: "shim.kill" }, signal, () => undefined).catch(() => undefined);
  connected.talk.socket.destroy();
}

/** It has written the exit and has nothing to do any more. */
async function waitUntilLeft(folders: MachineFolders): Promise<void> {
  const deadline = performance.now() + LEAVE_LIMIT_MS;
  for (let pid = await shimPid(folders); pid !== null; pid = await shimPid(folders)) {
    if (performance.now() > deadline) process.kill(pid, "SIGKILL");
    await sleep(POLL_MS);
  }
}

/** Processes with an id of the range. Zombies do not count: nothing of them runs, and their parent may take its time. */
function livingPids(slot: number): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    const uid = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? 0;
    return Math.floor((uid - FIRST_UID) / UIDS_PER_SLOT) === slot && readStartTime(pid) !== null;
  });
}

/** By their owner, not by the record: that may have been cut off, and a range may have gone to somebody else after a crash. Drafts too. */
async function claimsOf(host: HostFolders, id: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir(host.uids).catch(() => [])) {
    const owner = await readSlotOwner(`${host.uids}/${name}`);
    if (owner?.key === host.key && owner.sandboxId === id) found.push(name);
  }
  return found;
}
