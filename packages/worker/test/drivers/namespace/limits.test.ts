import { afterAll, afterEach, describe, expect, test } from "vitest";
import { attemptInside, LIMIT_MS, leftovers, makeHost, specOf } from "../support.ts";

const MEGABYTE = 2 ** 20;
const rowMemory = { limitsBytes: [48 * MEGABYTE, 48 * MEGABYTE] };
const host = makeHost();
const probe = await host.driver.probe();

describe.skipIf(probe.rowMemory !== "cgroup")("limits of a sandbox", { timeout: LIMIT_MS }, () => {
  afterEach(async () => {
    expect(await leftovers(host)).toEqual([]);
  });
  afterAll(() => host.remove());

  test("a fork bomb gets exactly its number of processes", async () => {
    // Twenty with the bomb itself.
    expect(await attemptInside(host, ["fork_bomb"], { processes: 20 })).toEqual({
      did: { children: 19, errno: "EAGAIN" },
    });
  });

  test("memory beyond the limit is a kill by the kernel, reported as its signal", async () => {
    const sandbox = await host.driver.start(
      specOf({
        argv: ["/usr/bin/python3", "-c", "b = bytearray(200_000_000)\nfor i in range(0, len(b), 4096): b[i] = 1"],
        memoryBytes: 64 * MEGABYTE,
      }),
      AbortSignal.timeout(LIMIT_MS),
    );
    expect(await sandbox.exited).toEqual({ code: null, signal: "SIGKILL" });
    await sandbox.kill();
  });

  test("files on a tmpfs count as memory", async () => {
    expect(await attemptInside(host, ["fill_tmp", 200 * MEGABYTE], { memoryBytes: 64 * MEGABYTE })).toBeNull();
    expect(await attemptInside(host, ["fill_tmp", 8 * MEGABYTE], { memoryBytes: 64 * MEGABYTE })).toEqual({
      did: "filled",
    });
  });

  test("a row over its share is killed alone and counted, a row below it lives", async () => {
    const folder = "/run/sandpool/memory";
    const options = { capabilities: "pool" as const, rowMemory };
    const over = await attemptInside(host, ["enter_group", folder, "e0", 10_000, 96 * MEGABYTE], options);
    expect(over).toEqual({ did: { exit: -9, kills: 1 } });
    const below = await attemptInside(host, ["enter_group", folder, "e1", 10_001, 8 * MEGABYTE], options);
    expect(below).toEqual({ did: { exit: 0, kills: 0 } });
  });

  test("saved states have a group of their own, with one limit for all of them", async () => {
    const folder = "/run/sandpool/memory";
    const states = { ...rowMemory, statesBytes: 24 * MEGABYTE };
    const options = { capabilities: "pool" as const, rowMemory: states };
    const over = await attemptInside(host, ["enter_group", folder, "states", 10_100, 96 * MEGABYTE], options);
    expect(over).toEqual({ did: { exit: -9, kills: 1 } });
    const below = await attemptInside(host, ["enter_group", folder, "states", 10_101, 8 * MEGABYTE], options);
    expect(below).toEqual({ did: { exit: 0, kills: 0 } });
    const without = { capabilities: "pool" as const, rowMemory };
    const absent = await attemptInside(host, ["open_for_writing", `${folder}/states/cgroup.procs`], without);
    expect(absent).toEqual({ failed: "ENOENT" });
  });

  test("a server with umask 077 makes the same sandbox", async () => {
    const careful = makeHost();
    const before = process.umask(0o077);
    try {
      const options = { capabilities: "pool" as const, rowMemory };
      const outcome = await attemptInside(
        careful,
        ["enter_group", "/run/sandpool/memory", "e1", 10_001, MEGABYTE],
        options,
      );
      expect(outcome).toEqual({ did: { exit: 0, kills: 0 } });
      const inside = await attemptInside(careful, ["read_as_row", 10_001, "/etc/passwd"], options);
      expect(inside).toEqual({ did: expect.stringContaining("root:x:0:0") });
      expect(await leftovers(careful)).toEqual([]);
    } finally {
      process.umask(before);
      careful.remove();
    }
  });

  test.each([
    ["/run/sandpool/memory/e0/memory.limit_in_bytes"],
    ["/run/sandpool/memory/cgroup.procs"],
    ["/run/sandpool/memory/tasks"],
    ["/run/sandpool/memory/e0/cgroup.clone_children"],
  ])("%s cannot be written from inside", async (path) => {
    const outcome = await attemptInside(host, ["open_for_writing", path], { capabilities: "pool", rowMemory });
    expect(outcome).toEqual({ failed: "EACCES" });
  });

  test("no group can be made from inside", async () => {
    const path = "/run/sandpool/memory/mine";
    const outcome = await attemptInside(host, ["make_folder", path], { capabilities: "pool", rowMemory });
    expect(outcome).toEqual({ failed: "EACCES" });
  });

  test("a hierarchy that a pool's agent mounts for itself is no more writable", async () => {
    const outcome = await attemptInside(host, ["make_group_in_own_mount"], { capabilities: "pool" });
    const refused = [{ failed: "EACCES" }, { failed: "EACCES" }, { failed: "ENOENT" }];
    expect([{ did: refused }, { did: "EPERM" }, { did: "EBUSY" }]).toContainEqual(outcome);
  });

  test("a spec without limits is refused, naming the field", async () => {
    await expect(host.driver.start(specOf({ memoryBytes: 0 }), AbortSignal.timeout(LIMIT_MS))).rejects.toThrow(
      /memoryBytes is 0/,
    );
    await expect(
      host.driver.start(specOf({ processes: Number.POSITIVE_INFINITY }), AbortSignal.timeout(LIMIT_MS)),
    ).rejects.toThrow(/processes is Infinity/);
  });
});
