import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
}, 60_000);
afterAll(() => server?.stop(), 60_000);

const pids = (list: unknown) => (list as number[][]).map(([, , pid]) => pid);

describe("a packed pool", { timeout: 60_000 }, () => {
  test("holds k rows a process, the last one the remainder, and says so", async () => {
    await using pool = await makePool(server, "packed", { n: 5, envsPerProcess: 2 });
    const [a, b, c, d, e] = pids(pool.initialObservations.toList());
    expect([a === b, c === d, new Set([a, c, e]).size]).toEqual([true, true, 3]);
    expect(pool.description.packing).toMatchObject({ requested: 2, rows_per_process: 2, processes: 3 });
    const { observations, rewards } = await pool.step(Int32Array.of(1, 2, 3, 4, 5));
    expect([...rewards]).toEqual([1, 2, 3, 4, 5]);
    expect((observations.toList() as number[][]).map(([row, steps]) => [row, steps])).toEqual([
      [0, 1],
      [1, 1],
      [2, 1],
      [3, 1],
      [4, 1],
    ]);
  });

  test("loses one row by an exception, the whole process by a crash", async () => {
    await using pool = await makePool(server, "packed", { n: 4, envsPerProcess: 2, shards: 1 });
    const raised = await pool.step(Int32Array.of(91, 1, 1, 1));
    expect([...raised.errors].map(([row, { kind }]) => [row, kind])).toEqual([[0, "exception"]]);
    await pool.reset({ where: [0] });
    const crashed = await pool.step(Int32Array.of(1, 1, 1, 92));
    expect([...crashed.errors].map(([row, { kind }]) => [row, kind])).toEqual([
      [2, "crash"],
      [3, "crash"],
    ]);
    expect((await pool.reset({ where: [2, 3] })).errors.size).toBe(0);
  });

  test("steps its rows at their own pace too", async () => {
    await using pool = await makePool(server, "packed", { n: 4, envsPerProcess: 2, autoreset: "same_step" });
    const steps = [0, 0, 0, 0];
    pool.send(new Int32Array(4));
    for await (const { index, dones, infos } of pool.results()) {
      for (const [place, row] of index.entries()) {
        steps[row] = (steps[row] as number) + 1;
        expect([dones[place], "final_obs" in (infos[place] ?? {})]).toEqual(new Array(2).fill(steps[row] === 5));
      }
      const unfinished = index.filter((row) => (steps[row] as number) < 6);
      pool.send(new Int32Array(unfinished.length), unfinished);
    }
    expect(steps).toEqual([6, 6, 6, 6]);
  });

  test("chooses how many rows share a process when asked to, and says why", async () => {
    await using pool = await makePool(server, "packed", { n: 4, envsPerProcess: "auto", autoreset: "auto" });
    expect(pool.description.packing).toMatchObject({
      requested: "auto",
      rows_per_process: 1,
      reason: expect.any(String),
    });
    expect([pool.description.autoreset, pool.description.vector]).toEqual(["same_step", null]);
  });
});
