import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findRunsc } from "../../src/drivers/gvisor/find.ts";
import type { Pool } from "../../src/index.ts";
import { leftovers } from "../fixtures/leftovers.ts";
import { jsonActions, parseJson } from "../fixtures/pool.ts";
import { openRealWorker, type RealWorker } from "../fixtures/real-worker.ts";

const MEGABYTE = 2 ** 20;
const PROCESSES = 40;
const isPossible = process.geteuid?.() === 0 && findRunsc() !== null;
if (!isPossible) console.log("skipped: pools of the gvisor driver need root and runsc");

describe.skipIf(!isPossible)("rows of a gvisor pool", { timeout: 60_000 }, () => {
  let real: RealWorker;
  let pool: Pool;
  let seq = 0;

  beforeAll(async () => {
    real = await openRealWorker({ limits: { processes: PROCESSES } });
    const limits = { memory: "96MiB", workspace: "8MiB", step_timeout: 20, call_timeout: 20 };
    pool = await real.create("attempts", { n: 3, shards: 1, isolation: "gvisor", ...limits });
  }, 60_000);

  afterAll(async () => {
    await pool.close();
    expect(leftovers(real.dataDir)).toEqual([]);
    expect(await real.close()).toEqual([]);
  });

  async function call(name: string, args: unknown[], where: number[]) {
    seq += 1;
    const request = { seq, name, args, where };
    return parseJson(await pool.call(request, Buffer.from(JSON.stringify(request)), "json"));
  }

  async function pidOf(row: number): Promise<number> {
    const { rows } = await pool.status({ memory: false });
    return rows[row]?.pid as number;
  }

  async function expectOthersToStep(others: number[]): Promise<void> {
    seq += 1;
    const batch = parseJson(await pool.step(jsonActions(seq, [0, 0], others), "json"));
    expect(batch.failed).toEqual([]);
    seq += 1;
    expect(parseJson(await pool.reset({ seq }, Buffer.from("{}"), "json")).failed).toEqual([]);
  }

  test("their kernel is not the host's, and what bounds their memory is told", async () => {
    expect((await call("kernel", [], [0])).results).toEqual([expect.stringContaining("gvisor")]);
    const { limits, warnings } = pool.describe();
    expect(limits).toMatchObject({ memory_method: "watch" });
    expect(warnings.join(" ")).toMatch(/watched by the agent/);
  });

  test("class 11: a row sees nothing of another row, the template or the agent beyond its name, and can end none", async () => {
    const own = await call("look_at", ["self"], [0]);
    expect(own.results).toEqual([{ fd: "seen", root: "seen", cwd: "seen", environ: "seen", mem: "opened" }]);
    for (const pid of [1, 2, await pidOf(1)]) {
      const refused = { fd: "EACCES", root: "EACCES", cwd: "EACCES", environ: "EACCES", mem: "EACCES" };
      expect((await call("look_at", [pid], [0])).results).toEqual([refused]);
      expect((await call("kill", [pid], [0])).results).toEqual(["EPERM"]);
    }
    expect((await call("become", [10_001], [0])).results).toEqual(["EPERM"]);
    await expectOthersToStep([1, 2]);
  });

  test("files of a row are its own, and its folders together have one quota", async () => {
    for (const folder of ["/workspace", "/tmp", "/dev/shm"]) {
      await call("write", [`${folder}/mine`, "canary"], [0]);
      expect((await call("list", [folder], [0, 1])).results).toEqual([["mine"], []]);
    }
    expect((await call("fill", ["/tmp/full"], [1])).results).toEqual([[8 * MEGABYTE, "ENOSPC"]]);
    expect((await call("write", ["/workspace/more", "x".repeat(5000)], [1])).results).toEqual(["ENOSPC"]);
    expect((await call("write", ["/workspace/more", "x"], [2])).results).toEqual([1]);
  });

  test("class 27: a row has no more processes than its limit, and the others go on", async () => {
    const [started] = (await call("start_processes", [4 * PROCESSES], [0])).results as number[];
    // Its own process and the shell count too; the kernel's count is a few late.
    expect(started).toBeGreaterThan(PROCESSES / 2);
    expect(started).toBeLessThan(PROCESSES + 8);
    await expectOthersToStep([1, 2]);
  });

  test("class 28: memory of several programs of a row counts together, and its end costs that row alone", async () => {
    const ended = await call("hog", [4, 40 * MEGABYTE], [1]);
    expect(ended).toMatchObject({
      failed: [1],
      infos: [{ sandpool_error: { kind: "oom", message: expect.stringContaining(`limit of ${96 * MEGABYTE} bytes`) } }],
    });
    await expectOthersToStep([0, 2]);
  });

  test("the status has the memory of each row, of the template and of the agent", async () => {
    const { rows, memory } = await pool.status({ memory: true });
    expect(memory?.method).toBe("memory_group");
    for (const row of rows) expect(row.pss_bytes).toBeGreaterThan(0);
    expect(memory?.templates_pss_bytes).toBeGreaterThan(MEGABYTE);
    expect(memory?.agents_pss_bytes).toBeGreaterThan(0);
  });
});

test.skipIf(!isPossible)("dependencies are installed in a sandbox of gvisor", { timeout: 60_000 }, async () => {
  const real = await openRealWorker();
  const pool = await real.create("dependent", { n: 1, shards: 1, isolation: "gvisor" });
  expect(parseJson(await pool.observations("json")).obs).toEqual([[2, 1]]);
  await pool.close();
  expect(await real.close()).toEqual([]);
});
