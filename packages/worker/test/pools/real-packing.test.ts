import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Pool } from "../../src/index.ts";
import { type JsonBatch, jsonActions, parseJson, until } from "../fixtures/pool.ts";
import { openRealWorker, type RealWorker } from "../fixtures/real-worker.ts";

const empty = Buffer.from("{}");
let real: RealWorker;
let pool: Pool | undefined;
let seq = 0;

beforeAll(async () => {
  real = await openRealWorker();
});

afterEach(async () => {
  await pool?.close();
  pool = undefined;
  seq = 0;
});

afterAll(async () => {
  expect(await real.close()).toEqual([]);
});

const step = async (of: Pool, actions: number[], where: number[] | null = null): Promise<JsonBatch> =>
  parseJson(await of.step(jsonActions(++seq, actions, where), "json"));

const reset = async (of: Pool, members: object = {}): Promise<JsonBatch> =>
  parseJson(await of.reset({ seq: ++seq, ...members }, empty, "json"));

/** As the sandbox counts them: in two shards two processes may have the same number. */
const pids = async (of: Pool): Promise<(number | null)[]> =>
  (await of.status({ memory: false })).rows.map(({ pid }) => pid);

/** What the rows did, without the time it took. */
const columnsOf = ({ obs, rewards, terminated, truncated, infos, failed }: JsonBatch): object => {
  return { obs, rewards, terminated, truncated, infos, failed };
};

/** Which rows share a process, as the smallest row of each. */
async function sharing(of: Pool): Promise<number[]> {
  const all = await pids(of);
  return all.map((pid) => all.indexOf(pid));
}

describe("several rows in one process", { timeout: 60_000 }, () => {
  test("packed or not, in one shard or two, rows have the same trajectories", async () => {
    const runs: unknown[] = [];
    for (const packing of [{}, { envs_per_process: 3 }, { envs_per_process: 3, shards: 2 }]) {
      const packed = await real.create("packed", { n: 7, seed: 5, autoreset: "same_step", ...packing });
      seq = 0;
      const run = [columnsOf(parseJson(await packed.observations("json")))];
      for (let at = 0; at < 12; at += 1) run.push(columnsOf(await step(packed, [1, 2, 3, 4, 5, 6, 7])));
      run.push(columnsOf(await reset(packed, { seed: [9, null, 8, null, 7, 6, 5] })));
      runs.push(run);
      await packed.close();
    }
    expect(runs[1]).toEqual(runs[0]);
    expect(runs[2]).toEqual(runs[0]);
  });

  test("rows go into processes in index order, with a process's memory told once", async () => {
    pool = await real.create("packed", { n: 7, envs_per_process: 3 });
    expect(pool.describe()).toMatchObject({
      shards: 1,
      packing: { requested: 3, rows_per_process: 3, processes: 3, step_us: null },
      vector: null,
      start: { way: "fork" },
    });
    expect(await sharing(pool)).toEqual([0, 0, 0, 3, 3, 3, 6]);
    const { rows, memory } = await pool.status({ memory: true });
    const [a, b, c, , , , last] = rows.map((row) => row.pss_bytes ?? 0) as [number, number, number, ...number[]];
    expect([b, c]).toEqual([a, a]);
    // A row alone in its process has about what three share.
    expect(last).toBeGreaterThan(2 * a);
    expect(memory?.environments_pss_bytes).toBe(rows.reduce((sum, row) => sum + (row.pss_bytes ?? 0), 0));
  });

  test("a row that raises costs itself alone", async () => {
    pool = await real.create("packed", { n: 4, envs_per_process: 4 });
    const before = await pids(pool);
    const batch = await step(pool, [1, -1, 3, 4]);
    expect(batch).toMatchObject({ failed: [1], rewards: [1, 0, 3, 4], terminated: [false, true, false, false] });
    expect(batch.infos[1]?.sandpool_error).toMatchObject({
      kind: "exception",
      message: expect.stringContaining("asked to raise"),
    });
    const after = await reset(pool, { where: [1] });
    // A new object took its place in the same process.
    expect(after.infos).toMatchObject([{ index: 1, resets: 1 }]);
    expect(await step(pool, [1, 1, 1, 1])).toMatchObject({
      failed: [],
      obs: [
        [2, 0],
        [1, 0],
        [4, 0],
        [5, 0],
      ],
    });
    expect(await pids(pool)).toEqual(before);
  });

  test("a crash takes the rows of its process, says which, and the next reset finds a new one", async () => {
    pool = await real.create("packed", { n: 5, envs_per_process: 2, step_timeout: 10 });
    const before = await pids(pool);
    const batch = await step(pool, [1, 1, 1, -2, 1]);
    expect(batch).toMatchObject({
      failed: [2, 3],
      truncated: [false, false, true, true, false],
      rewards: [1, 1, 0, 0, 1],
    });
    for (const row of [2, 3]) {
      const message = expect.stringMatching(/2.*3/);
      expect(batch.infos[row]?.sandpool_error).toMatchObject({ kind: "crash", exit_code: 7, message });
    }
    expect((await step(pool, [1, 1, 1, 1, 1])).infos[2]?.sandpool_error).toMatchObject({ repeated: true });
    expect((await reset(pool, { where: [2, 3] })).failed).toEqual([]);
    expect(await step(pool, [1, 1, 1, 1, 1])).toMatchObject({ failed: [], rewards: [1, 1, 1, 1, 1] });
    const after = await pids(pool);
    expect(after.filter((pid, row) => pid !== before[row])).toEqual([after[2], after[2]]);
  });

  test("a row out of time in Python fails alone, one that no signal reaches takes its process", async () => {
    pool = await real.create("packed", { n: 4, envs_per_process: 2, step_timeout: 1 });
    const slow = await step(pool, [1, -3, 1, 1]);
    expect(slow).toMatchObject({ failed: [1], rewards: [1, 0, 1, 1] });
    expect(slow.infos[1]).toMatchObject({ sandpool_straggler: true, sandpool_error: { kind: "timeout" } });
    await reset(pool);
    const hung = await step(pool, [1, -6, 1, 1]);
    expect(hung).toMatchObject({ failed: [0, 1], rewards: [0, 0, 1, 1] });
    expect(hung.infos[0]?.sandpool_error).toMatchObject({ kind: "timeout" });
    expect((await reset(pool)).failed).toEqual([]);
  });

  test("memory is per environment: a process has its rows' together, in a cgroup of its own", async () => {
    pool = await real.create("packed", { n: 4, envs_per_process: 3, memory: "64MiB" });
    const batch = await step(pool, [-4, 1, 1, -4]);
    expect(batch.failed).toEqual([3]);
    expect(batch.infos[3]?.sandpool_error).toMatchObject({ kind: "oom" });
  });

  test("a hard reset of a whole process makes a new one, of a part new objects in the old one", async () => {
    pool = await real.create("packed", { n: 4, envs_per_process: 2 });
    const before = await pids(pool);
    await step(pool, [-5, 1, -5, 1]);
    const part = await reset(pool, { where: [1], hard: true });
    expect(part.infos).toMatchObject([{ index: 1, resets: 1 }]);
    expect((await pids(pool)).slice(0, 2)).toEqual(before.slice(0, 2));
    await reset(pool, { where: [2, 3], hard: true });
    const files = (await step(pool, [1, 1, 1, 1])).infos.map((info) => info.files);
    expect(files).toEqual([["kept"], ["kept"], [], []]);
    const after = await pids(pool);
    expect(after[2]).not.toBe(before[2]);
    expect(after[3]).toBe(after[2]);
  });

  test("a process that is killed between batches tells each of its rows once, and is replaced as one", async () => {
    pool = await real.create("packed", { n: 4, envs_per_process: 2, autoreset: "next_step" });
    await step(pool, [1, 1, 1, 1]);
    const call = parseJson(await pool.call({ seq: ++seq, name: "where" }, empty, "json"));
    expect((call.results as number[][]).map(([index]) => index)).toEqual([0, 1, 2, 3]);
    await step(pool, [-2], [3]);
    const told = await step(pool, [1, 1, 1], [0, 1, 2]);
    expect(told).toMatchObject({ failed: [2], rewards: [1, 1, 0] });
    const counters = async () => (await (pool as Pool).status({ memory: false })).counters;
    await until(async () => (await counters()).replacements === 1);
    await until(async () => (await step(pool as Pool, [1, 1, 1, 1])).failed.length === 0);
  });

  test("a program that can hold one row only is refused, with what stands in the way", async () => {
    await expect(real.create("counting", { n: 2, envs_per_process: 2 })).rejects.toMatchObject({
      code: "packing_unsupported",
      message: expect.stringContaining("serve(make="),
    });
    await expect(real.create("plain", { n: 2, envs_per_process: 2 })).rejects.toMatchObject({
      code: "packing_unsupported",
    });
  });

  test("auto gives a process each to what cannot be packed or measured, and says why", async () => {
    pool = await real.create("packed", { n: 3, envs_per_process: "auto" });
    expect(pool.describe().packing).toMatchObject({
      requested: "auto",
      rows_per_process: 1,
      processes: 3,
      reason: expect.stringContaining("action space"),
    });
    expect(await sharing(pool)).toEqual([0, 1, 2]);
    await pool.close();
    pool = await real.create("plain", { n: 2, envs_per_process: "auto" });
    expect(pool.describe().packing).toMatchObject({
      rows_per_process: 1,
      reason: expect.stringContaining("cannot hold"),
    });
  });

  test("a spawned program is packed as well", async () => {
    pool = await real.create("packed", { n: 5, envs_per_process: 2, start: "spawn" });
    expect(pool.describe().start.way).toBe("spawn");
    expect(await sharing(pool)).toEqual([0, 0, 2, 2, 4]);
    expect(await step(pool, [1, 2, 3, 4, 5])).toMatchObject({ failed: [], rewards: [1, 2, 3, 4, 5] });
  });
});
