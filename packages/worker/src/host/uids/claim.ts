import { randomUUID } from "node:crypto";
import { link, readFile, unlink, writeFile } from "node:fs/promises";
import { type ProcessIdentity, parseIdentity } from "../identity.ts";
import { reclaimStaleSlots } from "./reclaim.ts";

/** Ids of one sandbox: container ids 0..65535. */
export const UIDS_PER_SLOT = 65_536;

/**
 * 0x70000000, the first id that systemd's table of uid ranges leaves unused up to 2^31: no user, no subuid and no
 * container range of another tool is there, and 4096 ranges of 65,536 fill it exactly.
 */
export const FIRST_UID = 0x7000_0000;
export const SLOTS = 4096;

/** Which slots to choose from. */
export interface SlotRange {
  first: number;
  count: number;
}

const ALL_SLOTS: SlotRange = { first: 0, count: SLOTS };

export interface SlotOwner {
  process: ProcessIdentity;
  /** Which server: `HostFolders.key`. */
  key: string;
  sandboxId: string;
}

export interface UidSlot {
  slot: number;
  firstUid: number;
  release(): Promise<void>;
}

/**
 * Claims a range of host uids that no other sandbox of any server on this host has.
 * A claim is a file made whole by link(2), which fails if the name exists.
 * @throws when all ranges are in use.
 */
export async function claimUidSlot(folder: string, owner: SlotOwner, slots = ALL_SLOTS): Promise<UidSlot> {
  const draft = `${folder}/.draft-${randomUUID()}`;
  await writeFile(draft, JSON.stringify(owner), { flag: "wx", mode: 0o600 });
  try {
    const slot = (await claimFirstFree(folder, draft, slots)) ?? (await reclaimAndClaim(folder, draft, slots));
    if (slot === null)
      throw new Error(`all ${slots.count} uid ranges in ${folder} are in use; close pools and try again`);
    const file = `${folder}/${slot}`;
    return { slot, firstUid: FIRST_UID + slot * UIDS_PER_SLOT, release: () => unlink(file).catch(ignoreMissing) };
  } finally {
    await unlink(draft).catch(ignoreMissing);
  }
}

export async function readSlotOwner(file: string): Promise<SlotOwner | null> {
  try {
    const value = JSON.parse(await readFile(file, "utf8")) as Record<string, unknown>;
    const identity = parseIdentity(value.process);
    if (identity === null || typeof value.key !== "string" || typeof value.sandboxId !== "string") return null;
    return { process: identity, key: value.key, sandboxId: value.sandboxId };
  } catch {
    return null;
  }
}

async function reclaimAndClaim(folder: string, draft: string, slots: SlotRange): Promise<number | null> {
  await reclaimStaleSlots(folder, () => true);
  return await claimFirstFree(folder, draft, slots);
}

async function claimFirstFree(folder: string, draft: string, slots: SlotRange): Promise<number | null> {
  for (let slot = slots.first; slot < slots.first + slots.count; slot++) {
    try {
      await link(draft, `${folder}/${slot}`);
      return slot;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
  return null;
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
