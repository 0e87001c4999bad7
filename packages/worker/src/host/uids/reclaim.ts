import { readdir, readFile, unlink } from "node:fs/promises";
import { isAlive } from "../identity.ts";
import { FIRST_UID, readSlotOwner, type SlotOwner, UIDS_PER_SLOT } from "./claim.ts";
import { withHostLock } from "./lock.ts";

/**
 * Frees claims of dead servers. A range whose uids still run anything stays claimed: its container outlived its server.
 * @param wanted narrows it to some owners.
 * @returns the freed slots.
 */
export async function reclaimStaleSlots(folder: string, wanted: (owner: SlotOwner) => boolean): Promise<number[]> {
  // Two reclaimers could each free the claim that the other's winner has just made; the lock makes the check and the unlink one.
  return await withHostLock("uids", async () => {
    const stale: number[] = [];
    for (const name of await readdir(folder)) {
      const owner = await readSlotOwner(`${folder}/${name}`);
      if (owner === null || isAlive(owner.process) || !wanted(owner)) continue;
      if (/^\d+$/.test(name)) stale.push(Number(name));
      // A claim that was cut off: it holds no range.
      else await unlink(`${folder}/${name}`);
    }
    if (stale.length === 0) return [];
    const running = await slotsWithProcesses();
    const freed = stale.filter((slot) => !running.has(slot));
    await Promise.all(freed.map((slot) => unlink(`${folder}/${slot}`)));
    return freed;
  });
}

/** Slots whose uids own a running process; of a zombie nothing runs any more. */
export async function slotsWithProcesses(): Promise<Set<number>> {
  const slots = new Set<number>();
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const status = await readFile(`/proc/${pid}/status`, "latin1").catch(() => "");
    if (/^State:\s*[ZX]/m.test(status)) continue;
    for (const uid of status
      .match(/^Uid:(.*)$/m)?.[1]
      ?.trim()
      .split(/\s+/) ?? []) {
      const slot = Math.floor((Number(uid) - FIRST_UID) / UIDS_PER_SLOT);
      if (slot >= 0) slots.add(slot);
    }
  }
  return slots;
}
