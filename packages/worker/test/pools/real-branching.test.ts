import { readdir, readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findRunsc } from "../../src/drivers/gvisor/find.ts";
import type { Pool } from "../../src/index.ts";
import { leftovers } from "../fixtures/leftovers.ts";
import { jsonActions, parseJson, until } from "../fixtures/pool.ts";
import { openRealWorker, type RealWorker } from "../fixtures/real-worker.ts";
import { type BranchedBatch, fork, raw, restore, save } from "./branching/support.ts";

const isRoot = process.geteuid?.() === 0;
let real: RealWorker;

beforeAll(async () => {
  real = await openRealWorker();
});

afterAll(async () => {
  expect(await real.close()).toEqual([]);
});

/** A pool with its batch numbers. */
class Numbered {
  readonly pool: Pool;

  constructor(pool: Pool) {
    this.pool = pool;
  }

  get next(): number {
    return this.pool.describe().next_seq;
  }

  async step(actions: number[], where: number[] | null = null) {
    return parseJson(await this.pool.step(jsonActions(this.next, actions, where), "json"));
  }

  async reset(members: object = {}) {
    const request = { seq: this.next, ...members };
    return parseJson(await this.pool.reset(request, raw(request), "json"));
  }

  fork(pairs: [number, number][], reseed: number | true | null = null): Promise<BranchedBatch> {
    return fork(this.pool, { seq: this.next, pairs, reseed });
  }

  save(where: number[] | null = null) {
    return save(this.pool, this.next, where);
  }

  restore(pairs: [string, number][], reseed: number | true | null = null): Promise<BranchedBatch> {
    return restore(this.pool, { seq: this.next, pairs, reseed });
  }

  async written(): Promise<unknown[]> {
    const request = { seq: this.next, name: "written" };
    return parseJson(await this.pool.call(request, raw(request), "json")).results as unknown[];
  }
}

async function make(members: Parameters<RealWorker["create"]>[1]): Promise<Numbered> {
  return new Numbered(await real.create("branching", { memory: "256MiB", workspace: "16MiB", seed: 3, ...members }));
}

const own = findRunsc() === null ? [] : (["gvisor"] as const);
const isolations = isRoot ? (["namespace", ...own, "unisolated"] as const) : (["unisolated"] as const);

describe.each(isolations)("%s", { timeout: 60_000 }, (isolation) => {
  let walks: Numbered;

  beforeAll(async () => {
    walks = await make({ n: 4, shards: 1, isolation });
  }, 60_000);
  afterAll(() => walks.pool.close());

  test("targets go on from where their source is, with files of their own, and step the same", async () => {
    await walks.reset();
    const before = await walks.step([1, 2, 3, 4]);
    const forked = await walks.fork([
      [0, 1],
      [0, 3],
      [2, 0],
    ]);
    expect(forked.obs).toEqual([before.obs?.[2], before.obs?.[0], before.obs?.[0]]);
    expect(forked).toMatchObject({ failed: [], reseeded: [null, null, null] });
    const after = await walks.step([5, 5, 5, 5]);
    expect(after.failed).toEqual([]);
    expect([after.obs?.[3], after.obs?.[0]]).toEqual([after.obs?.[1], after.obs?.[2]]);
    expect(await walks.written()).toEqual(["3\n5\n", "1\n5\n", "3\n5\n", "1\n5\n"]);
  });

  test("a saved row is restored across resets, its process's end and hard resets, as often as one likes", async () => {
    await walks.reset();
    await walks.step([7, 8, 9, 9]);
    const [state] = await walks.save([1]);
    const id = state?.id as string;
    expect(state).toMatchObject({ row: 1, step: 1, way: "fork", pending: false, lost: null });
    const first = await walks.step([1, 1, 1, 1]);
    await walks.step([0, -2, 0, 0]);
    for (const members of [{ where: [1] }, { where: [1], hard: true }]) {
      await walks.reset(members);
      expect((await walks.restore([[id, 1]])).failed).toEqual([]);
      expect((await walks.step([1], [1])).obs).toEqual([first.obs?.[1]]);
    }
    await walks.restore([
      [id, 0],
      [id, 3],
    ]);
    const copies = (await walks.step([1, 1], [0, 3])).obs;
    expect(copies).toEqual([first.obs?.[1], first.obs?.[1]]);
    expect((await walks.pool.states({ memory: true })).states).toMatchObject([{ id, pss_bytes: expect.any(Number) }]);
    expect(await walks.pool.drop(null)).toEqual([id]);
  });

  test("reseeded copies part, each by its own seed, and the same seed again goes the same way", async () => {
    await walks.reset();
    const [state] = await walks.save([0]);
    const restored = await walks.restore(
      [0, 1, 2].map((row) => [state?.id as string, row]),
      50,
    );
    expect(restored.reseeded.map((list) => list?.includes("random"))).toEqual([true, true, true]);
    const first = (await walks.step([1, 1, 1], [0, 1, 2])).obs as number[][];
    expect(new Set(first.map(([place]) => place)).size).toBe(3);
    await walks.restore([[state?.id as string, 2]], 50);
    expect((await walks.step([1], [2])).obs).toEqual([first[2]]);
    await walks.pool.drop(null);
  });

  test("what cannot be copied says why, and nothing has changed", async () => {
    await walks.reset();
    await walks.reset({ where: [2], options: { thread: true } });
    const before = await walks.step([1, 2, 3, 4]);
    const refused = walks.fork([
      [0, 1],
      [2, 3],
    ]);
    await expect(refused).rejects.toMatchObject({
      code: "fork_unsupported",
      message: expect.stringMatching(/^row 2 cannot be copied: threads: /),
    });
    await expect(walks.save()).rejects.toMatchObject({ details: { sources: [{ row: 2 }] } });
    expect((await walks.pool.states({ memory: false })).states).toEqual([]);
    const after = await walks.step([0, 0, 0, 0]);
    expect(after.obs?.map((obs) => (obs as number[])[1])).toEqual(before.obs?.map(() => 4));
    await walks.reset();
    expect((await walks.fork([[2, 3]])).failed).toEqual([]);
  });

  test("a failed row is healed by a copy; as a source it is refused", async () => {
    await walks.reset();
    expect((await walks.step([0, -2, 0, 0])).failed).toEqual([1]);
    await expect(walks.fork([[1, 0]])).rejects.toMatchObject({
      details: { sources: [{ row: 1, blockers: [{ failed: "crash" }] }] },
    });
    expect((await walks.fork([[0, 1]])).failed).toEqual([]);
    const { obs, failed } = await walks.step([3, 3, 3, 3]);
    expect([failed, obs?.[1]]).toEqual([[], obs?.[0]]);
  });

  test("a copied end of an episode stays pending", async () => {
    const ending = await make({ n: 2, shards: 1, isolation, autoreset: "next_step" });
    await ending.step([100, 1]);
    const [state] = await ending.save([0]);
    expect(state?.pending).toBe(true);
    await ending.fork([[0, 1]]);
    const { obs, rewards } = await ending.step([5, 5]);
    expect([rewards, obs?.map((row) => (row as number[])[1])]).toEqual([
      [0, 0],
      [0, 0],
    ]);
    await ending.pool.close();
  });

  test("rows that share a process are copied by their state", async () => {
    const packed = new Numbered(
      await real.create("packed-branching", { n: 4, shards: 1, envs_per_process: 2, isolation, memory: "256MiB" }),
    );
    await packed.step([1, 2, 3, 4]);
    const [state] = await packed.save([3]);
    expect(state?.way).toBe("state");
    await packed.step([1, 1, 1, 1]);
    await packed.fork([[2, 1]]);
    await packed.restore([[state?.id as string, 0]]);
    expect((await packed.step([1, 1, 1, 1])).obs).toEqual([[5], [5], [5], [6]]);
    await packed.pool.close();
  });
});

describe.skipIf(!isRoot)("sandboxes", { timeout: 60_000 }, () => {
  test("states have a memory group of their own, and after a close nothing of them is left", async () => {
    const walks = await make({ n: 2, shards: 1 });
    await walks.save();
    await walks.save();
    const processes = await readStatesGroup(walks.pool);
    expect(processes).toHaveLength(4);
    const [state] = (await walks.pool.states({ memory: false })).states;
    await walks.pool.drop([state?.id as string]);
    await until(async () => (await readStatesGroup(walks.pool)).length === 3);
    await walks.pool.close();
    expect(leftovers(real.dataDir)).toEqual([]);
  });

  test("a sandbox that is killed takes its states with it; another one's live on", async () => {
    const walks = await make({ n: 2, shards: 2 });
    const [lost, kept] = await walks.save();
    const [agent] = await agentPids(walks.pool, "s0");
    process.kill(agent as number, "SIGKILL");
    await until(async () => (await walks.pool.states({ memory: false })).states[0]?.lost !== null);
    await expect(walks.restore([[lost?.id as string, 0]])).rejects.toMatchObject({
      code: "state_lost",
      details: { states: [lost?.id], error: { kind: "crash" } },
    });
    expect((await walks.restore([[kept?.id as string, 1]])).failed).toEqual([]);
    expect((await walks.reset()).failed).toEqual([]);
    const [again] = await walks.save([0]);
    expect((await walks.restore([[again?.id as string, 0]])).failed).toEqual([]);
    await walks.pool.close();
  });

  test("an environment that may not branch says so", async () => {
    const walks = await make({ n: 2, shards: 1, branching: false });
    await expect(walks.save([0])).rejects.toMatchObject({
      details: { sources: [{ row: 0, blockers: expect.arrayContaining([{ branching: false }]) }] },
    });
    await walks.pool.close();
  });
});

async function readStatesGroup(pool: Pool): Promise<string[]> {
  const root = "/sys/fs/cgroup";
  const roots = [root, ...(await readdir(root)).map((name) => `${root}/${name}`)];
  for (const folder of roots) {
    for (const server of (await readdir(folder).catch(() => [])).filter((name) => name.startsWith("sandpool-"))) {
      const group = `${folder}/${server}/${pool.id.replaceAll("_", "-")}-s0-g0/rows/states/cgroup.procs`;
      const text = await readFile(group, "utf8").catch(() => null);
      if (text !== null) return text.split("\n").filter(Boolean);
    }
  }
  throw new Error("there is no group of states");
}

async function agentPids(pool: Pool, shard: string): Promise<number[]> {
  const mark = `${pool.id.replaceAll("_", "-")}-${shard}-`;
  const pids: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const text = await readFile(`/proc/${name}/cgroup`, "utf8").catch(() => "");
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (text.includes(mark) && command.startsWith("/sandpool/agent")) pids.push(Number(name));
  }
  return pids;
}
