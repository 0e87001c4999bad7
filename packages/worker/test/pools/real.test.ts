import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findRunsc } from "../../src/drivers/gvisor/find.ts";
import type { Pool } from "../../src/index.ts";
import { leftovers } from "../fixtures/leftovers.ts";
import { arrayActions, jsonActions, parseBinary, parseJson, until } from "../fixtures/pool.ts";
import { openRealWorker, type RealWorker } from "../fixtures/real-worker.ts";

const patient = { timeout: 60_000 };
const empty = Buffer.from("{}");
let real: RealWorker;

beforeAll(async () => {
  real = await openRealWorker();
});

const isRoot = process.geteuid?.() === 0;
const isolations = isRoot && findRunsc() !== null ? (["namespace", "gvisor"] as const) : (["namespace"] as const);

afterAll(async () => {
  expect(await real.close()).toEqual([]);
});

/** pool-semantics.md, Seeds: what row i gets in its e-th reset. */
function derivedSeed(poolSeed: number, row: number, episode: number): number {
  const digest = createHash("sha256").update(`sandpool-seed/1:${poolSeed}:${row}:${episode}`).digest();
  return digest.readUInt32BE(0) >>> 1;
}

/** Pids of processes on the host that belong to a sandbox of the pool, its agents among them. */
async function agentPids(pool: Pool): Promise<number[]> {
  const mark = pool.id.replaceAll("_", "-");
  const pids: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const text = await readFile(`/proc/${name}/cgroup`, "utf8").catch(() => "");
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    // Under gVisor the agent is no process of the host; its kernel is.
    if (text.includes(mark) && /^(\/sandpool\/agent|runsc-sandbox)/.test(command)) pids.push(Number(name));
  }
  return pids;
}

describe.each(isolations)("a pool of Python environments in sandboxes of %s", (isolation) => {
  let pool: Pool;
  let seq = 0;

  beforeAll(async () => {
    pool = await real.create("counting", {
      n: 5,
      shards: 2,
      isolation,
      seed: 11,
      name: "counting",
      step_timeout: 2,
      memory: "256MiB",
    });
  }, 60_000);

  afterAll(async () => {
    await pool.close();
    expect(leftovers(real.dataDir)).toEqual([]);
  });

  test("its description says how it started and what form its observations have", () => {
    expect(pool.describe()).toMatchObject({
      n: 5,
      shards: 2,
      name: "counting",
      seed: 11,
      isolation,
      start: { way: "fork", reason: null },
      layout: { kind: "array", fields: [{ dtype: "<f8", shape: [2] }] },
      next_seq: 1,
    });
  });

  test("the first reset has the derived seeds of episode 0", async () => {
    const { columns } = parseBinary(await pool.observations("binary"));
    expect(columns.obs).toEqual([0, 1, 2, 3, 4].flatMap((row) => [0, derivedSeed(11, row, 0)]));
  });

  test("both encodings carry the same step", async () => {
    const json = parseJson(await pool.step(jsonActions(++seq, [1, 2, 3, 4, 5]), "json"));
    expect(json).toMatchObject({
      obs: [1, 2, 3, 4, 5].map((count) => [count, 0]),
      rewards: [1, 2, 3, 4, 5],
      failed: [],
    });
    const { columns } = parseBinary(await pool.step(arrayActions(++seq, [1, 1, 1, 1, 100]), "binary"));
    expect(columns).toMatchObject({
      obs: [2, 3, 4, 5, 105].flatMap((count) => [count, 0]),
      terminated: [0, 0, 0, 0, 1],
    });
  });

  test("a partial reset in any order leaves the other rows alone, and options and seeds follow their rows", async () => {
    const request = { seq: ++seq, where: [4, 0], seed: [70, null], options: [{ start: 7 }, { start: 9 }] };
    const reset = parseJson(await pool.reset(request, Buffer.from(JSON.stringify(request)), "json"));
    expect(reset.obs).toEqual([
      [9, derivedSeed(11, 0, 1)],
      [7, 70],
    ]);
    expect(parseBinary(await pool.observations("binary")).columns.obs).toMatchObject({ 2: 3, 4: 4, 6: 5, 8: 7 });
  });

  test("a full reset with an integer gives row i the seed s + i", async () => {
    const { columns } = parseBinary(await pool.reset({ seq: ++seq, seed: 50 }, empty, "binary"));
    expect(columns.obs).toEqual([0, 50, 0, 51, 0, 52, 0, 53, 0, 54]);
    expect(pool.describe().seed).toBe(50);
  });

  test("a hard reset wipes the workspace, a soft one keeps it", async () => {
    await pool.step(jsonActions(++seq, [-5, -5], [1, 3]), "json");
    expect(parseJson(await pool.reset({ seq: ++seq, where: [1, 3] }, empty, "json")).infos).toMatchObject([
      { files: ["kept"] },
      { files: ["kept"] },
    ]);
    const hard = parseJson(await pool.reset({ seq: ++seq, where: [1], hard: true }, empty, "json"));
    expect(hard.infos).toMatchObject([{ files: [] }]);
    expect(parseJson(await pool.reset({ seq: ++seq, where: [3] }, empty, "json")).infos).toMatchObject([
      { files: ["kept"] },
    ]);
  });

  test("calls, attributes and their failures come back row by row", async () => {
    const call = { seq: ++seq, name: "describe", args: ["ab"], kwargs: { times: 2 }, where: [2, 0] };
    expect(parseJson(await pool.call(call, Buffer.from(JSON.stringify(call)), "json")).results).toEqual([
      "abab0",
      "abab0",
    ]);
    const set = { seq: ++seq, call: "set" as const, name: "label", values: ["c", "a"], per_row: true, where: [2, 0] };
    await pool.call(set, Buffer.from(JSON.stringify(set)), "json");
    const get = parseJson(await pool.call({ seq: ++seq, call: "get", name: "label" }, empty, "json"));
    expect(get.results).toEqual(["a", "plain", "c", "plain", "plain"]);
    const missing = parseJson(await pool.call({ seq: ++seq, name: "no_such", where: [1] }, empty, "json"));
    expect(missing).toMatchObject({ failed: [1], infos: [{ sandpool_error: { kind: "exception" } }] });
  });

  test(
    "an exception, an exit, a timeout and the end of memory each cost one row, and the next reset finds it ready",
    patient,
    async () => {
      const failed = parseJson(await pool.step(jsonActions(++seq, [-1, -2, -3, -4, 1]), "json"));
      expect(failed.failed).toEqual([0, 1, 2, 3]);
      expect(failed.infos.map((info) => (info.sandpool_error as { kind: string } | undefined)?.kind)).toEqual([
        "exception",
        "crash",
        "timeout",
        "oom",
        undefined,
      ]);
      expect(failed).toMatchObject({
        rewards: [0, 0, 0, 0, 1],
        terminated: [true, false, false, false, false],
        truncated: [false, true, true, true, false],
      });
      expect((await pool.logs(1)).toString()).toContain("leaving");
      expect(parseJson(await pool.step(jsonActions(++seq, [1], [1]), "json")).infos[0]).toMatchObject({
        sandpool_error: { kind: "crash", repeated: true },
      });
      expect(parseJson(await pool.reset({ seq: ++seq }, empty, "json"))).toMatchObject({ failed: [] });
      expect(parseJson(await pool.step(jsonActions(++seq, [1, 1, 1, 1, 1]), "json")).rewards).toEqual([1, 1, 1, 1, 1]);
    },
  );

  test("the status counts replacements and samples memory", async () => {
    const status = await pool.status({ memory: true });
    expect(status.rows.map((row) => [row.row, row.state])).toEqual([0, 1, 2, 3, 4].map((row) => [row, "ready"]));
    expect(status.counters).toMatchObject({ stragglers: 1, replacements: expect.any(Number) });
    expect(status.counters.replacements).toBeGreaterThanOrEqual(4);
    expect(status.memory?.method).not.toBe("unknown");
    expect(status.memory?.environments_pss_bytes).toBeGreaterThan(0);
  });

  test("a killed sandbox fails its own rows only, and is there again at the next reset", patient, async () => {
    const pids = await agentPids(pool);
    expect(pids).toHaveLength(2);
    const running = pool.step(jsonActions(++seq, [-3, 1, 1, -3, 1]), "json");
    process.kill(pids[0] as number, "SIGKILL");
    const batch = parseJson(await running);
    const kinds = batch.infos
      .map((info) => (info.sandpool_error as { kind: string } | undefined)?.kind ?? "fine")
      .join(" ");
    expect(["crash crash crash timeout fine", "timeout fine fine crash crash"]).toContain(kinds);
    const reset = parseJson(await pool.reset({ seq: ++seq }, empty, "json"));
    expect(reset).toMatchObject({ failed: [], obs: [[0], [0], [0], [0], [0]].map(() => [0, expect.any(Number)]) });
    expect(parseJson(await pool.step(jsonActions(++seq, [1, 2, 3, 4, 5]), "json")).rewards).toEqual([1, 2, 3, 4, 5]);
  });
});

test("a shell script without a helper is an environment", patient, async () => {
  const pool = await real.create("plain", { n: 2, shards: 1 });
  expect(pool.describe()).toMatchObject({
    start: { way: "spawn" },
    layout: { kind: "array", fields: [{ dtype: "<f8", shape: [] }] },
  });
  await pool.step(jsonActions(1, [0, 0]), "json");
  expect(parseJson(await pool.step(jsonActions(2, [0], [1]), "json"))).toMatchObject({ obs: [2], rewards: [1] });
  await pool.close();
  expect(leftovers(real.dataDir)).toEqual([]);
});

test("the same environments run where nothing isolates", patient, async () => {
  const pool = await real.create("counting", { n: 2, shards: 1, isolation: "unisolated" });
  expect(parseJson(await pool.step(jsonActions(1, [3, 4]), "json")).rewards).toEqual([3, 4]);
  expect(pool.describe().warnings.join(" ")).toMatch(/protects nothing/);
  await pool.close();
  expect(await readdir(real.dataDir)).not.toContain(pool.id);
});

test("an environment that cannot be made fails the create with its row and standard error", patient, async () => {
  const failing = real.create("counting", { n: 2, entry: "broken.py" });
  await expect(failing).rejects.toMatchObject({
    code: "environment_failed",
    details: { stderr_tail: expect.stringContaining("ZeroDivisionError") },
  });
  expect(leftovers(real.dataDir)).toEqual([]);
});

test.each(["start", "reset"] as const)("an abort in the phase %s leaves nothing", patient, async (phase) => {
  const abort = new AbortController();
  const onProgress = (progress: { phase: string }): void => {
    if (progress.phase === phase) abort.abort();
  };
  await expect(
    real.create("counting", { n: 8, shards: 2 }, { signal: abort.signal, onProgress }),
  ).rejects.toMatchObject({ code: "creation_aborted" });
  expect(leftovers(real.dataDir)).toEqual([]);
});

test("aborts at any moment leave nothing", patient, async () => {
  for (const delayMs of [0, 20, 60, 120, 250]) {
    const abort = new AbortController();
    const creating = real.create("counting", { n: 4, shards: 2 }, { signal: abort.signal });
    const settled = creating.then(
      (pool) => pool.close(),
      () => {},
    );
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    abort.abort();
    await settled;
    expect(leftovers(real.dataDir)).toEqual([]);
  }
});

test("a lease that ends while nobody asks leaves nothing", patient, async () => {
  const pool = await real.create("counting", { n: 1, lease: 0.5 });
  await until(() => leftovers(real.dataDir).length === 0);
  await expect(pool.status({ memory: false })).rejects.toMatchObject({ code: "pool_closed" });
});

test("pools with dependencies import them, and concurrent creates share one installation", patient, async () => {
  const wanted = [...isolations, "namespace"] as const;
  const pools = await Promise.all(wanted.map((isolation) => real.create("dependent", { n: 1, shards: 1, isolation })));
  for (const pool of pools) {
    expect(parseJson(await pool.observations("json")).obs).toEqual([[2, 1]]);
    await pool.close();
  }
  expect((await readdir(`${real.dataDir}/layers`)).filter((name) => name !== "incoming")).toHaveLength(1);
});
