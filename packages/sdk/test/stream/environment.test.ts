import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Environment, type NdArray, NotReadyError, type RowStep } from "../../src/index.ts";
import { makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

const SLOW = 10;

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
}, 60_000);
afterAll(() => server?.stop(), 60_000);

describe("environments that are checked out", { timeout: 60_000 }, () => {
  test("serve more rollouts than there are rows, each with its own task and seed", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    let inUse = 0;
    let most = 0;
    const rollout = async (task: number): Promise<unknown[]> => {
      await using env = await pool.env<NdArray>();
      inUse += 1;
      most = Math.max(most, inUse);
      const { observation, info } = await env.reset({ seed: 100 + task, options: { task } });
      expect([observation.toList(), info]).toEqual([[env.index, 0, 100 + task], { task }]);
      const seen: unknown[] = [];
      for (let step = 1; step <= 4; step += 1) {
        const result = await env.step(task % 2);
        expect(result.observation.toList()).toEqual([env.index, step, 100 + task]);
        seen.push(result.reward);
      }
      inUse -= 1;
      return seen;
    };
    const tasks = Array.from({ length: 9 }, (_, task) => task);
    const rewards = await Promise.all(tasks.map(rollout));
    expect(rewards).toEqual(tasks.map((task) => new Array(4).fill(task % 2)));
    expect(most).toBe(3);
    // With all released, batches may run again.
    expect((await pool.getAttr("steps")).results).toEqual([4, 4, 4]);
  });

  test("are waited for in order, and a wait can end early", async () => {
    await using pool = await makePool(server, "pacing", { n: 1 });
    const held = await pool.env();
    const late = await pool.env({ timeoutMs: 30 }).catch((error: unknown) => error);
    expect(late).toBeInstanceOf(NotReadyError);
    const aborting = new AbortController();
    const order: string[] = [];
    const aborted = pool.env({ signal: aborting.signal });
    const waiters = ["first", "second"].map(async (name) => {
      await using _ = await pool.env();
      order.push(name);
    });
    aborting.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    held.release();
    held.release();
    await Promise.all(waiters);
    expect(order).toEqual(["first", "second"]);
    expect(await (await pool.env()).reset()).toMatchObject({ error: null });
  });

  test("belong to one holder: batches and sends to their rows are refused, other rows may be sent", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    await using env = await pool.env<NdArray>();
    await expect(pool.step([0, 0, 0])).rejects.toMatchObject({ code: "pool_busy", details: { checked_out: 1 } });
    expect(() => pool.send([0, 0, 0])).toThrow(/1 of the rows to be sent are out or checked out/);
    const others = [0, 1, 2].filter((row) => row !== env.index);
    pool.send([1, 1], others);
    await env.reset({ seed: 1 });
    const step = env.step(0);
    const received = await pool.recv({ minReady: 2 });
    expect(received.index.toSorted()).toEqual(others);
    expect((await step).observation.toList()).toEqual([env.index, 1, 1]);
    expect(pool.rowsOut).toEqual([]);
  });

  test("are reset before their first step, and not used after their release", async () => {
    await using pool = await makePool(server, "pacing", { n: 1 });
    const env = await pool.env();
    await expect(env.step(0)).rejects.toThrow(/step was called on row 0 before a reset/);
    await env.reset();
    await env.step(0);
    env.release();
    await expect(env.step(0)).rejects.toThrow(/Row 0 was used after its release/);
    await using next = await pool.env();
    await expect(next.step(0)).rejects.toThrow(/before a reset/);
  });

  test("have one call at a time; one that was given up ends before the next begins", async () => {
    await using pool = await makePool(server, "pacing", { n: 1 });
    await using env = await pool.env<NdArray>();
    await env.reset({ seed: 1 });
    const slow = env.step(SLOW);
    await expect(env.step(0)).rejects.toMatchObject({ code: "pool_busy" });
    expect((await slow).reward).toBe(SLOW);
    const aborting = new AbortController();
    const given = env.step(SLOW, { signal: aborting.signal });
    setTimeout(() => aborting.abort(new Error("enough")), 20);
    await expect(given).rejects.toThrow("enough");
    await expect(env.step(0)).rejects.toThrow(/before a reset that came to its end/);
    const reset = env.reset({ seed: 7 });
    await expect(env.reset()).rejects.toMatchObject({ code: "pool_busy" });
    expect((await reset).observation.toList()).toEqual([0, 0, 7]);
  });

  test("lose nothing by what the pool refused, their own or another's that was asked in the same turn", async () => {
    await using pool = await makePool(server, "counting", { n: 3 });
    const envs = [await pool.env(), await pool.env(), await pool.env()] as const;
    await Promise.all(envs.map((env) => env.reset()));
    const asked = envs.map((env) => env.step(env.index === 1 ? 10n ** 500n : "fine"));
    const [first, refused, last] = await Promise.allSettled(asked);
    expect([first, last]).toMatchObject([
      { value: { observation: { steps: 1 } } },
      { value: { observation: { steps: 1 } } },
    ]);
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "invalid_request" } });
    expect(await envs[1].step("better")).toMatchObject({ observation: { steps: 1 } });
    for (const env of envs) env.release();
  });

  test("get the seed and task that each asked for, whichever order they ask in", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    const envs = [await pool.env<NdArray>(), await pool.env<NdArray>(), await pool.env<NdArray>()];
    const asked = [2, 0, 1].map((row) => envs[row]?.reset({ seed: 100 + row, options: { task: row } }));
    const seen = (await Promise.all(asked)).map((reset) => [reset?.observation.toList(), reset?.info]);
    expect(seen).toEqual([2, 0, 1].map((row) => [[row, 0, 100 + row], { task: row }]));
    for (const env of envs) env.release();
  });

  test("are free only when what they were asked has come", async () => {
    await using pool = await makePool(server, "pacing", { n: 1 });
    let step: Promise<RowStep>;
    {
      await using env: Environment = await pool.env();
      await env.reset();
      step = env.step(SLOW);
    }
    let isDone = false;
    void step.then(() => {
      isDone = true;
    });
    await using _ = await pool.env();
    expect(isDone).toBe(true);
  });

  test("that were left before their result came are waited for by batches", async () => {
    await using pool = await makePool(server, "pacing", { n: 2 });
    const leave = async (): Promise<void> => {
      await using env = await pool.env();
      await env.reset();
      const aborting = new AbortController();
      setTimeout(() => aborting.abort(new Error("enough")), 20);
      await expect(env.step(SLOW / 2, { signal: aborting.signal })).rejects.toThrow("enough");
    };
    await leave();
    const reset = pool.reset({ seed: 7 });
    await expect(pool.getAttr("steps")).rejects.toMatchObject({ code: "pool_busy" });
    expect(() => pool.send([0, 0])).toThrow(/while reset of the same pool is not done/);
    expect((await reset).observations.toList()).toEqual([
      [0, 0, 7],
      [1, 0, 8],
    ]);
    await Promise.all([leave(), leave()]);
    expect((await pool.step([0, 0])).observations.toList()).toEqual([
      [0, 2, expect.any(Number)],
      [1, 2, expect.any(Number)],
    ]);
    // Who waits for the row comes first; a batch whose wait is given up leaves nothing behind.
    await using held = await pool.env();
    await leave();
    const waiting = pool.env();
    await expect(pool.reset()).rejects.toMatchObject({ code: "pool_busy", details: { checked_out: 2 } });
    (await waiting).release();
    held.release();
    await leave();
    const aborted = pool.step([0, 0], { signal: AbortSignal.timeout(20) });
    await expect(aborted).rejects.toMatchObject({ name: "TimeoutError" });
    expect((await pool.reset({ seed: 9 })).observations.at(1, 2)).toBe(10);
  });

  test("call methods between the steps of all", async () => {
    await using pool = await makePool(server, "pacing", { n: 3 });
    const rollout = async (seed: number): Promise<unknown[]> => {
      await using env = await pool.env<NdArray>();
      await env.reset({ seed });
      const seen: unknown[] = [];
      for (let step = 0; step < 4; step += 1) {
        await env.step(step === seed ? 2 : 0);
        seen.push(await env.call("scaled", { args: [10], kwargs: { plus: seed } }));
      }
      return seen;
    };
    const seen = await Promise.all([0, 1, 2, 3, 4].map(rollout));
    expect(seen).toEqual([0, 1, 2, 3, 4].map((seed) => [1, 2, 3, 4].map((steps) => 10 * steps + seed)));
    await using env = await pool.env();
    await expect(env.call("no_such_method")).rejects.toMatchObject({ code: "row_failed" });
    expect(await env.call("scaled", { args: [0] })).toBe(0);
    await expect(pool.call("scaled", { args: [1] })).rejects.toMatchObject({ code: "pool_busy" });
  });

  test("of a vectorised environment do not exist", async () => {
    await using pool = await makePool(server, "vectorised", {
      n: 2,
      envsPerProcess: 2,
      autoreset: "auto",
      start: "spawn",
    });
    await expect(pool.env()).rejects.toMatchObject({ code: "vectorized_unsupported", details: { class: "Pair" } });
    expect([pool.description.autoreset, pool.description.vector?.class]).toEqual(["next_step", "Pair"]);
    pool.send([1, 2]);
    const { index, rewards } = await pool.recv({ minReady: 2 });
    expect(index.map((row, place) => [row, rewards[place]]).sort()).toEqual([
      [0, 1],
      [1, 2],
    ]);
    pool.send([1], [1]);
    await expect(pool.recv()).rejects.toMatchObject({ code: "vectorized_unsupported" });
  });

  test("give failures as errors, or throw them", async () => {
    await using pool = await makePool(server, "pacing", { n: 1 });
    await using env = await pool.env<NdArray>();
    expect((await env.reset({ options: { task: "fail" } })).error).toMatchObject({ kind: "exception", op: "reset" });
    expect((await env.reset({ seed: 2 })).error).toBeNull();
    const failed = await env.step(91);
    expect([failed.done, failed.terminated, failed.observation.toList()]).toEqual([true, true, [0, 0, 2]]);
    expect(failed.error).toMatchObject({ kind: "exception", type: "RuntimeError" });
    await using raising = await makePool(server, "pacing", { n: 1, errors: "raise" });
    await using other = await raising.env();
    await other.reset();
    await expect(other.step(92)).rejects.toMatchObject({ code: "row_failed", result: { done: true } });
    expect((await other.reset()).error).toBeNull();
  });
});
