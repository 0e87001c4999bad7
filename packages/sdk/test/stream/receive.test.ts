import { getEventListeners } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type NdArray, NotReadyError, type RLPool, type RowsFailedError } from "../../src/index.ts";
import { makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

// An action is how many tenths of a second the step takes.
const SLOW = 25;
/** Longer than the test. */
const ENDLESS = 290;

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
}, 60_000);
afterAll(() => server?.stop(), 60_000);

describe("rows that were sent", { timeout: 60_000 }, () => {
  test("come back in the order in which they finish, and a slow one never holds the others", async () => {
    await using pool = await makePool(server, "pacing", { n: 4 });
    await pool.reset({ seed: 10 });
    pool.send(Int32Array.of(ENDLESS, 0, 0, 0));
    for (let steps = 0; steps < 5; steps += 1) {
      const ready = await pool.recv({ minReady: 3 });
      expect(ready.index.toSorted()).toEqual([1, 2, 3]);
      expect(ready.observations.toList()).toEqual(ready.index.map((row) => [row, steps + 1, 10 + row]));
      expect([ready.ops, [...ready.rewards], ready.dones]).toEqual([
        ["step", "step", "step"],
        [0, 0, 0],
        [false, false, false],
      ]);
      pool.send(new Int32Array(3), ready.index);
    }
    expect(pool.rowsOut).toEqual([0, 1, 2, 3]);
    expect((await pool.recv({ minReady: 3 })).index).not.toContain(0);
  });

  test("have actions, seeds and options in the order of where, and infos of resets are the rows' reset infos", async () => {
    await using pool = await makePool(server, "pacing", { n: 4 });
    pool.sendReset({ where: [2, 0], seed: [22, 20], options: [{ task: 2 }, { task: 7 }] });
    pool.send([3, 1], { where: [3, 1] });
    const all = await pool.recv({ minReady: 4 });
    const of = (row: number) => all.index.indexOf(row);
    expect([of(2), of(0)].map((place) => all.observations.row(place).toList())).toEqual([
      [2, 0, 22],
      [0, 0, 20],
    ]);
    expect([of(3), of(1)].map((place) => [all.rewards[place], all.ops[place]])).toEqual([
      [3, "step"],
      [1, "step"],
    ]);
    expect([pool.resetInfos[0], pool.resetInfos[2]]).toEqual([{ task: 7 }, { task: 2 }]);
    pool.sendReset({ seed: 100 });
    const reset = await pool.recv({ minReady: 4 });
    expect(reset.index.map((_, place) => reset.observations.at(place, 2))).toEqual(reset.index.map((row) => 100 + row));
    expect((await pool.status()).seed).toBe(100);
  });

  test("give the same trajectory as batches with the same seeds and actions", async () => {
    const trajectory = async (drive: (pool: RLPool<NdArray>, action: number) => Promise<unknown>) => {
      await using pool = await makePool(server, "pacing", { n: 3, seed: 3, autoreset: "same_step" });
      const steps: unknown[] = [];
      for (let step = 0; step < 12; step += 1) steps.push(await drive(pool, step % 2));
      return steps;
    };
    const inBatches = await trajectory(async (pool, action) => {
      const { observations, rewards, infos } = await pool.step(new Int32Array(3).fill(action));
      return { observations: observations.toList(), rewards, infos };
    });
    const streamed = await trajectory(async (pool, action) => {
      pool.send(new Int32Array(3).fill(action));
      const { index, observations, rewards, infos } = await pool.recv({ minReady: 3 });
      expect(rewards).toEqual(new Float64Array(3).fill(action));
      const places = [0, 1, 2].map((row) => index.indexOf(row));
      const inOrder = places.map((place) => observations.row(place).toList());
      return { observations: inOrder, rewards, infos: places.map((place) => infos[place]) };
    });
    expect(streamed).toEqual(inBatches);
  });

  test("of a list pool are values", async () => {
    await using pool = await makePool<unknown[]>(server, "counting", { n: 2 });
    pool.send(["look", { go: [1] }]);
    const { index, observations } = await pool.recv({ minReady: 2 });
    const byRow = index.map((row, place) => [row, observations[place]]).sort();
    expect(byRow).toMatchObject([
      [0, { action: "look" }],
      [1, { action: { go: [1] } }],
    ]);
  });

  test("are copies: what was given or returned may be changed", async () => {
    await using pool = await makePool(server, "pacing", { n: 2 });
    const actions = Int32Array.of(1, 2);
    pool.send(actions);
    actions.fill(91);
    const first = await pool.recv({ minReady: 2 });
    expect([...first.rewards].sort()).toEqual([1, 2]);
    const before = first.observations.toList();
    pool.send([0, 0]);
    await pool.recv({ minReady: 2 });
    expect(first.observations.toList()).toEqual(before);
    (first.observations.data as Float64Array).fill(99);
    const { observations } = await pool.step([], []);
    expect([...observations.rows()].map((row) => [row.at(0), row.at(1)])).toEqual([
      [0, 2],
      [1, 2],
    ]);
  });

  test("end the iteration when none is out any longer", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    const steps = [0, 0, 0];
    pool.sendReset();
    for await (const { index, ops } of pool.results({ minReady: 2 })) {
      for (const [place, row] of index.entries()) if (ops[place] === "step") steps[row] = (steps[row] ?? 0) + 1;
      const again = index.filter((row) => (steps[row] ?? 0) < 4);
      pool.send(new Int32Array(again.length), again);
    }
    expect(steps).toEqual([4, 4, 4]);
  });
});

describe("a row that fails on the stream", { timeout: 60_000 }, () => {
  test("has its last good observation, its error and the flags of a batch; a reset brings it back", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    await pool.step(Int32Array.of(0, 0, 0));
    pool.send(Int32Array.of(91, 92, 0));
    const all = await pool.recv({ minReady: 3 });
    const of = (row: number) => all.index.indexOf(row);
    expect([all.terminated[of(0)], all.truncated[of(0)]]).toEqual([true, false]);
    expect([all.terminated[of(1)], all.truncated[of(1)]]).toEqual([false, true]);
    expect([...all.errors].sort()).toMatchObject([
      [0, { kind: "exception", type: "RuntimeError", repeated: false }],
      [1, { kind: "crash", exitCode: 7 }],
    ]);
    expect(pool.errors).toBe(all.errors);
    expect([of(0), of(1), of(2)].map((place) => all.observations.at(place, 1))).toEqual([1, 1, 2]);
    pool.send([0], [0]);
    expect((await pool.recv()).errors.get(0)).toMatchObject({ kind: "exception", repeated: true });
    pool.sendReset({ where: [0, 1] });
    expect((await pool.recv({ minReady: 2 })).errors.size).toBe(0);
  });

  test("is thrown with all rows in its result when asked to", async () => {
    await using pool = await makePool(server, "pacing", { n: 2, errors: "raise" });
    pool.send(Int32Array.of(91, 0));
    const failure = (await pool.recv({ minReady: 2 }).catch((error: unknown) => error)) as RowsFailedError;
    expect([failure.code, [...failure.errors.keys()]]).toEqual(["row_failed", [0]]);
    expect((failure.result as { index: number[] }).index.toSorted()).toEqual([0, 1]);
    expect(pool.rowsOut).toEqual([]);
  });
});

describe("recv", { timeout: 60_000 }, () => {
  test("that is too early, or aborted, loses nothing and leaves no listener", async () => {
    await using pool = await makePool(server, "pacing", { n: 2 });
    pool.send(Int32Array.of(SLOW, 0));
    const early = await pool.recv({ minReady: 2, timeoutMs: 50 }).catch((error: unknown) => error);
    expect(early).toBeInstanceOf(NotReadyError);
    expect(early).toMatchObject({ code: "deadline_passed", message: expect.stringMatching(/expected minReady 2/) });
    const aborting = new AbortController();
    const waiting = pool.recv({ minReady: 2, signal: aborting.signal });
    await expect(pool.recv()).rejects.toMatchObject({ code: "pool_busy" });
    aborting.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    expect(getEventListeners(aborting.signal, "abort")).toEqual([]);
    await expect(pool.recv({ signal: aborting.signal })).rejects.toThrow("enough");
    expect((await pool.recv({ minReady: 2 })).index).toEqual([1, 0]);
  });

  test("of more rows than are out is refused, for it would never end", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    await expect(pool.recv()).rejects.toThrow(/minReady 1 was called while 0 rows are out/);
    pool.send([0, 0], [0, 1]);
    await expect(pool.recv({ minReady: 3 })).rejects.toThrow(/expected at most 2/);
    expect((await pool.recv({ minReady: 2 })).index.toSorted()).toEqual([0, 1]);
    await expect(pool.recv({ minReady: 0 })).rejects.toThrow(/minReady is the number 0/);
    await expect(pool.recv({ timeoutMs: -1 })).rejects.toThrow(/timeoutMs is the number -1/);
  });

  test("throws what the pool refused, and its rows are free again", async () => {
    await using pool = await makePool<unknown[]>(server, "counting", { n: 2 });
    pool.send([10n ** 500n, "fine"]);
    await expect(pool.recv({ minReady: 2 })).rejects.toMatchObject({ code: "invalid_request" });
    expect(pool.rowsOut).toEqual([]);
    pool.send(["a", "b"]);
    expect((await pool.recv({ minReady: 2 })).observations).toMatchObject([{ steps: 1 }, { steps: 1 }]);
  });
});

describe("batches and the stream", { timeout: 60_000 }, () => {
  test("take turns, and refuse each other meanwhile", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    pool.send([1, 1], [0, 2]);
    expect(() => pool.send([0, 0], [1, 2])).toThrow(/1 of the rows to be sent are out .*the first is row 2/);
    for (const batch of [() => pool.step([0, 0, 0]), () => pool.reset(), () => pool.getAttr("steps")]) {
      await expect(batch()).rejects.toMatchObject({ code: "pool_busy", details: { out: 2 } });
    }
    await pool.recv({ minReady: 2 });
    const step = pool.step([2, 2, 2]);
    expect(() => pool.send([0], [0])).toThrow(/while step of the same pool is not done/);
    expect([...(await step).observations.rows()].map((row) => row.at(1))).toEqual([2, 1, 2]);
    pool.send([0], [1]);
    await pool.recv();
    expect((await pool.getAttr("steps")).results).toEqual([2, 2, 2]);
    // Two batches, and one message of results at least for each send.
    expect(pool.timing.summary().batches).toBeGreaterThanOrEqual(4);
  });

  test("an empty selection sends nothing, wrong arguments are refused before anything is sent", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    pool.send([], []);
    pool.sendReset({ where: [false, false, false] });
    expect(() => pool.send([1, 2])).toThrow(/actions has 2 items; expected 3/);
    expect(() => pool.send([1], [9])).toThrow(/where has 9/);
    expect(() => pool.sendReset({ seed: [1, 2] })).toThrow(/seed has 2 items; expected 3/);
    expect(() => pool.sendReset({ hard: 1 as never })).toThrow(/hard is the number 1; expected true or false/);
    expect(() => pool.sendReset({ sede: 1 } as object)).toThrow(/sendReset has no option sede/);
    expect(() => pool.send([0, 0, 0], { wehre: [1] } as object)).toThrow(/send has no option wehre/);
    expect(pool.rowsOut).toEqual([]);
  });
});
