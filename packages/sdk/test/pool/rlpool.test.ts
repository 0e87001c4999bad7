import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type NdArray, RLPool, type RowsFailedError, Sandpool, SandpoolError, type Value } from "../../src/index.ts";
import { startServer, type TestServer } from "../support/server.ts";

const COUNTING = join(import.meta.dirname, "../fixtures/counting");
const TAGS = join(import.meta.dirname, "../fixtures/tags");
const FAULTY = join(import.meta.dirname, "../fixtures/faulty");

let server: TestServer;
let connection: { url: string; apiKey: string };

beforeAll(async () => {
  server = await startServer();
  connection = { url: server.url, apiKey: server.key };
}, 60_000);
afterAll(() => server?.stop(), 60_000);

function nestedDeep(): Value {
  const value: Value[] = [];
  value.push(value);
  return value;
}

describe("a pool", { timeout: 60_000 }, () => {
  test("is created with progress, reset with its own seeds, stepped, called and closed", async () => {
    const phases = new Set<string>();
    const pool = await RLPool.create(
      COUNTING,
      { n: 3, seed: 5, onProgress: ({ phase }) => phases.add(phase) },
      connection,
    );
    expect(phases).toContain("upload");
    expect((pool.initialObservations as { index: number }[]).map(({ index }) => index)).toEqual([0, 1, 2]);

    const reset = await pool.reset({ seed: 40, options: [{ task: "a" }, { task: "b" }, { task: "c" }] });
    expect(reset.observations).toMatchObject([
      { seed: 40, options: { task: "a" } },
      { seed: 41, options: { task: "b" } },
      { seed: 42, options: { task: "c" } },
    ]);

    const step = await pool.step(["x", "end", null]);
    expect([...step.rewards]).toEqual([1, 1, 1]);
    expect(step.dones).toEqual([false, true, false]);
    expect(step.terminated).toEqual([false, true, false]);
    expect(step.infos).toEqual([{ steps: 1 }, { steps: 1 }, { steps: 1 }]);

    const sums = await pool.call("add", { args: [2n ** 64n], kwargs: { right: 1 } });
    expect(sums.results).toEqual([2n ** 64n + 1n, 2n ** 64n + 1n, 2n ** 64n + 1n]);
    await pool.setAttr("label", ["one", "two"], { where: [2, 0], perRow: true });
    expect((await pool.getAttr("label")).results).toEqual(["two", "unset", "one"]);

    expect((await pool.status({ memory: true })).rows?.every((row) => Number(row.pss_bytes) > 0)).toBe(true);
    expect(await pool.logs(1)).toContain("reset with 41");
    await pool.close();
    await pool.close();
    await expect(pool.step([0, 0, 0])).rejects.toMatchObject({ code: "pool_closed" });
  });

  test("what a request cannot hold is refused by name before anything is sent", async () => {
    await using pool = await RLPool.create(COUNTING, { n: 2 }, connection);
    const refused: [() => Promise<unknown>, RegExp][] = [
      [() => pool.reset({ seed: Number.NaN }), /seed is the number NaN; expected null or a whole number/],
      [() => pool.reset({ seed: [1, Number.POSITIVE_INFINITY] }), /the number Infinity/],
      [() => pool.reset({ sede: 3 } as object), /reset has no option sede; expected one of seed/],
      [() => pool.reset({ options: 3 as never }), /options is the number 3; expected a plain object/],
      [() => pool.reset({ options: [null, "x"] as never }), /options\[1\] is the string x/],
      [() => pool.call("add", { timeoutSeconds: Number.NaN }), /timeoutSeconds is the number NaN/],
      [() => pool.step([nestedDeep(), 1]), /nested deeper than 60 levels/],
      [() => RLPool.create(COUNTING, { n: 2, seed: Number.NaN }, connection), /seed is the number NaN/],
      [() => RLPool.create(COUNTING, { n: 2, inFlight: Number.NaN }, connection), /in_flight is the number NaN/],
      [() => RLPool.create(COUNTING, { n: 2, config: 3 as never }, connection), /config is the number 3/],
      [() => RLPool.attach(pool.id, { ...connection, errors: "ignore" as never }), /expected "rows" or "raise"/],
    ];
    for (const [call, message] of refused) {
      await expect(call()).rejects.toMatchObject({
        code: "invalid_argument",
        message: expect.stringMatching(message),
      });
    }
    expect((await pool.status()).next_seq).toBe(1);
  });

  test("a malformed tag costs its row and never the batch", async () => {
    await using pool = await RLPool.create(TAGS, { n: 2, start: "spawn", warn: false }, connection);
    const malformed = [
      '{"$nd":["|O",[1],"AAAAAAAAAAA="]}',
      '{"$nd":["<f4",[2],"AAAA"]}',
      '{"$tuple":3}',
      '{"$what":1}',
    ];
    for (const text of malformed) {
      const { observations, errors } = await pool.step(['"fine"', text]);
      expect([observations, errors.get(1)?.kind, errors.size]).toEqual([["fine", null], "protocol", 1]);
      await pool.reset({ where: [1] });
    }
    for (const text of ['{"$graph":{}}', '{"$nd":["<M8[zz]",[1],"AAAAAAAAAAA="]}', '{"__proto__":{"$float":"nan"}}']) {
      const { observations, errors, infos } = await pool.step(['"fine"', text]);
      expect([(observations as unknown[])[0], errors.size, "said" in (infos[1] ?? {})]).toEqual(["fine", 0, true]);
    }
  });

  test("steps only the selected rows, in the order of where", async () => {
    await using pool = await RLPool.create(COUNTING, { n: 3 }, connection);
    const result = await pool.step(["for 2", "for 0"], [2, 0]);
    expect(result.observations).toMatchObject([{ action: "for 0" }, { steps: 0 }, { action: "for 2" }]);
    expect([...result.rewards]).toEqual([1, 0, 1]);
    expect(result.infos[1]).toEqual({ sandpool_skipped: true });
    const none = await pool.step([], []);
    expect([...none.rewards]).toEqual([0, 0, 0]);
    await expect(pool.step([1, 2], [0])).rejects.toThrow(/actions has 2 items; expected 3.*or 1/);
  });

  test("gives failed rows as errors, the rest as usual", async () => {
    await using pool = await RLPool.create(FAULTY, { n: 3, warn: false }, connection);
    const result = await pool.step(["raise", "exit", "nan"]);
    expect([...result.errors.keys()]).toEqual([0, 1]);
    expect(result.errors.get(0)).toMatchObject({ kind: "exception", op: "step", type: "ValueError", repeated: false });
    expect(result.errors.get(1)).toMatchObject({ kind: "crash", exitCode: 7 });
    expect(result.terminated).toEqual([true, false, false]);
    expect(result.truncated).toEqual([false, true, false]);
    expect(result.rewards[2]).toBeNaN();
    // Failed rows hold their last good observation.
    expect((result.observations as NdArray).toList()).toEqual([
      [0.5, 1.5],
      [0.5, 1.5],
      [1, 2],
    ]);
    expect((await pool.reset({ where: [0, 1] })).errors.size).toBe(0);
  });

  test("throws instead, with every failed row, when asked to", async () => {
    await using pool = await RLPool.create(FAULTY, { n: 2, errors: "raise" }, connection);
    const failure = await pool.step(["raise", 0]).catch((error: RowsFailedError) => error);
    expect(failure).toMatchObject({ code: "row_failed" });
    expect((failure as Error).message).toContain("\\x1b[2Jan exception");
    expect([...(failure as RowsFailedError).errors.keys()]).toEqual([0]);
  });

  test("sends typed arrays as one buffer", async () => {
    await using pool = await RLPool.create(COUNTING, { n: 3 }, connection);
    const result = await pool.step(Int32Array.of(7, 8, 9));
    expect(result.observations).toMatchObject([{ action: 7 }, { action: 8 }, { action: 9 }]);
    const masked = await pool.step(Int32Array.of(1, 2, 3), [false, true, false]);
    expect(masked.observations).toMatchObject([{ action: 7 }, { action: 2 }, { action: 9 }]);
  });

  test("refuses a second call while one runs, and sends nothing", async () => {
    await using pool = await RLPool.create(COUNTING, { n: 1 }, connection);
    const first = pool.step(["x"]);
    await expect(pool.step(["y"])).rejects.toMatchObject({ code: "pool_busy" });
    expect((await first).observations).toMatchObject([{ steps: 1 }]);
  });

  test("is joined by name, sees the last observations, and survives the joiner", async () => {
    await using pool = await RLPool.create(COUNTING, { n: 2, name: "joined" }, connection);
    await pool.step(["a", "b"]);
    {
      await using joined = await RLPool.attach("joined", connection);
      expect(joined.initialObservations).toMatchObject([{ action: "a" }, { action: "b" }]);
      expect((await joined.step(["c", "d"])).observations).toMatchObject([{ steps: 2 }, { steps: 2 }]);
    }
    expect((await new Sandpool(connection).listPools()).map(({ name }) => name)).toContain("joined");
  });

  test("that cannot start names the row and shows its standard error", async () => {
    const missing = RLPool.create(join(import.meta.dirname, "../fixtures/unstartable"), { n: 2 }, connection);
    await expect(missing).rejects.toMatchObject({
      code: "environment_failed",
      details: { stderr_tail: expect.stringContaining("no_such_module") },
    });
  });

  test("is refused for an unknown option before anything is sent", async () => {
    const options = { n: 1, step_timeout: 3 } as unknown as { n: number };
    await expect(RLPool.create(COUNTING, options, connection)).rejects.toThrow(
      /step_timeout is unknown; expected one of .*stepTimeoutSeconds/,
    );
  });

  test("is refused for more rows a process than it has before anything is sent", async () => {
    await expect(RLPool.create("nowhere", { n: 2, envsPerProcess: 3 }, connection)).rejects.toMatchObject({
      name: "ArgumentError",
      message: "envsPerProcess: received 3; the pool has 2 rows.",
      hint: 'Pass an integer from 1 to 2, or "auto".',
    });
  });

  test("of another key is not found, and a wrong key is refused", async () => {
    const client = new Sandpool(connection);
    const other = await client.createKey("other", { owner: "other" });
    await using pool = await RLPool.create(COUNTING, { n: 1 }, connection);
    await expect(RLPool.attach(pool.id, { url: server.url, apiKey: other.key })).rejects.toMatchObject({
      code: "pool_not_found",
    });
    const stranger = new Sandpool({ url: server.url, apiKey: "sp_wrong" });
    await expect(stranger.listPools()).rejects.toMatchObject({ code: "unauthorized", status: 401 });
  });

  test("rolls a creation back when its signal aborts", async () => {
    const aborting = new AbortController();
    const creation = RLPool.create(
      COUNTING,
      {
        n: 64,
        start: "spawn",
        name: "aborted",
        onProgress: ({ phase }) => phase === "start" && aborting.abort(),
        signal: aborting.signal,
      },
      connection,
    );
    await expect(creation).rejects.toMatchObject({ name: "AbortError" });
    await expect
      .poll(async () => (await new Sandpool(connection).listPools()).some(({ name }) => name === "aborted"), {
        timeout: 20_000,
      })
      .toBe(false);
  });
});

test("a server that is not there is a connection error that says how to start one", async () => {
  const client = new Sandpool({ url: "http://127.0.0.1:9", apiKey: "sp_x" });
  const error = await client.listPools().catch((failure: SandpoolError) => failure);
  expect(error).toBeInstanceOf(SandpoolError);
  expect(error).toMatchObject({ code: "connection_failed", hint: expect.stringContaining("sandpool up") });
});
