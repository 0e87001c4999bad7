import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ownIdentity, type ProcessIdentity } from "../../../src/host/identity.ts";
import { claimUidSlot, FIRST_UID, SLOTS, UIDS_PER_SLOT } from "../../../src/host/uids/claim.ts";
import { reclaimStaleSlots } from "../../../src/host/uids/reclaim.ts";

describe("host uid ranges", { timeout: 60_000 }, () => {
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(`${tmpdir()}/sandpool-uids-`);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const owner = (process: ProcessIdentity = ownIdentity()) => ({ process, key: "k", sandboxId: "s" });
  // The last ones, which no sandbox that runs meanwhile reaches.
  const many = { first: SLOTS - 200, count: 200 };
  const three = { first: SLOTS - 3, count: 3 };
  const dead = { ...ownIdentity(), startTime: "1" };

  test("the ranges fill [0x70000000, 2^31) exactly", () => {
    expect(FIRST_UID + SLOTS * UIDS_PER_SLOT).toBe(2 ** 31);
  });

  test("a hundred claims at once get a hundred ranges, and a released one is used again", async () => {
    const slots = await Promise.all(Array.from({ length: 100 }, () => claimUidSlot(folder, owner(), many)));
    expect(new Set(slots.map(({ firstUid }) => firstUid)).size).toBe(100);
    await slots[41]?.release();
    const again = await claimUidSlot(folder, owner(), many);
    expect(again.slot).toBe(slots[41]?.slot);
    expect(readdirSync(folder)).toHaveLength(100);
  });

  test("when none is free, those of dead servers are taken back and the others are not", async () => {
    await claimUidSlot(folder, owner(), three);
    const stale = await claimUidSlot(folder, owner(dead), three);
    await claimUidSlot(folder, owner(), three);
    expect((await claimUidSlot(folder, owner(), three)).slot).toBe(stale.slot);
    await expect(claimUidSlot(folder, owner(), three)).rejects.toThrow(/all 3 uid ranges .* are in use/);
  });

  test("claims of an earlier boot are stale, unreadable files are nobody's to free", async () => {
    const { slot } = await claimUidSlot(folder, owner({ ...ownIdentity(), bootId: "another" }), many);
    writeFileSync(`${folder}/7`, "not JSON");
    expect(await reclaimStaleSlots(folder, () => true)).toEqual([slot]);
    expect(readdirSync(folder)).toEqual(["7"]);
  });

  test("two reclaimers at once free each claim once", async () => {
    for (let count = 0; count < 20; count++) await claimUidSlot(folder, owner(dead), many);
    const freed = await Promise.all([reclaimStaleSlots(folder, () => true), reclaimStaleSlots(folder, () => true)]);
    expect(freed.flat().sort((left, right) => left - right)).toEqual(
      Array.from({ length: 20 }, (_, index) => many.first + index),
    );
  });

  test.skipIf(process.geteuid?.() !== 0)("a range that still runs something stays claimed", async () => {
    const slot = SLOTS - 1;
    const uid = FIRST_UID + slot * UIDS_PER_SLOT + 10_017;
    writeFileSync(`${folder}/${slot}`, JSON.stringify(owner(dead)));
    const child = spawn("sleep", ["1000"], { uid, gid: uid, stdio: "ignore" });
    await new Promise((resolve) => child.once("spawn", resolve));
    expect(await reclaimStaleSlots(folder, () => true)).toEqual([]);
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    expect(await reclaimStaleSlots(folder, () => true)).toEqual([slot]);
  });
});
