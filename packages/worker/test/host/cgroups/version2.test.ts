import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { detectCgroups } from "../../../src/host/cgroups/detect.ts";
import { sharesToWeight } from "../../../src/host/cgroups/limit.ts";
import { makeShardGroups } from "../../../src/host/cgroups/shard.ts";

// A tree with the files the kernel would make: this shows what is written where, not what the kernel makes of it.
describe("cgroup version 2, on a tree of plain files", () => {
  let root = "";
  const control = ["cgroup.subtree_control", "cgroup.procs", "memory.max", "memory.swap.max", "pids.max", "cpu.weight"];
  const group = (path: string): void => {
    mkdirSync(root + path, { recursive: true });
    for (const name of control) writeFileSync(`${root}${path}/${name}`, "");
  };

  beforeAll(() => {
    root = mkdtempSync(`${tmpdir()}/sandpool-cgroup2-`);
    for (const path of [
      "",
      "/sandpool-k",
      "/sandpool-k/s1",
      "/sandpool-k/s1/rows",
      "/sandpool-k/s1/rows/e0",
      "/sandpool-k/s1/rows/e1",
      "/sandpool-k/s1/rows/states",
    ]) {
      group(path);
    }
    writeFileSync(`${root}/cgroup.controllers`, "cpuset cpu io memory hugetlb pids");
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  test("the hierarchy is found where it owns the memory controller", () => {
    const mount = { root: "/", point: root, options: [], type: "cgroup2", superOptions: ["rw"] };
    expect(detectCgroups([mount])).toEqual({
      version: 2,
      controllers: { memory: root, pids: root, cpu: root },
      roots: [root],
    });
  });

  test("limits, delegation and the agent's leaf are where the kernel looks for them", async () => {
    const hierarchy = { version: 2 as const, controllers: { memory: root, pids: root, cpu: root }, roots: [root] };
    const { uid, gid } = statSync(root);
    const limits = { memoryBytes: 123_456, processes: 77, cpuShares: 1024 };
    const groups = await makeShardGroups(hierarchy, "k", "s1", limits, {
      limitsBytes: [4096, 4096],
      statesBytes: 8192,
      ownerUid: uid,
      enterGid: gid,
    });
    await groups.rowsMade;
    expect(groups).toMatchObject({
      path: "/sandpool-k/s1",
      processPath: "/sandpool-k/s1/agent",
      rowsFolder: `${root}/sandpool-k/s1/rows`,
    });
    const read = (path: string): string => readFileSync(root + path, "utf8");
    expect(read("/cgroup.subtree_control")).toBe("+memory +pids +cpu");
    expect(read("/sandpool-k/cgroup.subtree_control")).toBe("+memory +pids +cpu");
    expect(read("/sandpool-k/s1/cgroup.subtree_control")).toBe("+memory");
    expect(read("/sandpool-k/s1/rows/cgroup.subtree_control")).toBe("+memory");
    expect(read("/sandpool-k/s1/memory.max")).toBe("123456");
    expect(read("/sandpool-k/s1/memory.swap.max")).toBe("0");
    expect(read("/sandpool-k/s1/pids.max")).toBe("77");
    // 1 + floor((1024 - 2) * 9999 / 262142)
    expect(read("/sandpool-k/s1/cpu.weight")).toBe("39");
    for (const [row, bytes] of [
      ["e0", "4096"],
      ["e1", "4096"],
      ["states", "8192"],
    ]) {
      expect(read(`/sandpool-k/s1/rows/${row}/memory.max`)).toBe(bytes);
      expect(statSync(`${root}/sandpool-k/s1/rows/${row}/cgroup.procs`).mode & 0o777).toBe(0o664);
    }
    // The nearest common ancestor of the agent's leaf and of every row.
    expect(statSync(`${root}/sandpool-k/s1/cgroup.procs`).mode & 0o777).toBe(0o664);
    expect(statSync(`${root}/sandpool-k/s1/rows/cgroup.procs`).mode & 0o777).toBe(0o644);
  });

  test("shares map onto weights as the OCI runtimes map them", () => {
    expect([2, 1024, 262_144].map(sharesToWeight)).toEqual([1, 39, 10_000]);
  });
});
