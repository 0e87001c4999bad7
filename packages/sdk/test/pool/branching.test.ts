import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ArgumentError,
  ForkUnsupportedError,
  type NdArray,
  NotFoundError,
  RLPool,
  SandpoolError,
  type SavedState,
} from "../../src/index.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cuttingProxy.ts";
import { makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
let proxy: CuttingProxy;
let pool: RLPool<NdArray>;

beforeAll(async () => {
  proxy = await startCuttingProxy();
  server = await startServer("--allow-host", `127.0.0.1:${proxy.port}`);
  proxy.leadTo(Number(new URL(server.url).port));
  pool = await makePool<NdArray>(server, "branching", {
    n: 4,
    shards: 1,
    seed: 1,
    memory: "256MiB",
    workspace: "16MiB",
  });
}, 60_000);
afterAll(async () => {
  await pool?.close();
  proxy?.close();
  await server?.stop();
}, 60_000);

const rowOf = (observations: NdArray, row: number): unknown => observations.row(row).toList();

describe("branching", { timeout: 60_000 }, () => {
  test("fork makes live copies and returns as reset does: n rows, the copies' observations and reset infos", async () => {
    await pool.reset({ seed: 10 });
    const before = await pool.step([1, 2, 3, 4]);
    const forked = await pool.fork([0, 2], [3, 1]);
    expect(forked.observations.shape).toEqual([4, 2]);
    for (const [row, source] of [0, 2, 2, 0].entries()) {
      expect(rowOf(forked.observations, row)).toEqual(rowOf(before.observations, source));
    }
    expect(forked.infos).toMatchObject([{}, { seed: 12 }, {}, { seed: 10 }]);
    expect(pool.resetInfos).toMatchObject([{ seed: 10 }, { seed: 12 }, { seed: 12 }, { seed: 10 }]);
    expect([forked.errors.size, forked.reseeded.size]).toEqual([0, 0]);
    const { observations } = await pool.step([1, 1, 1, 1]);
    expect(rowOf(observations, 3)).toEqual(rowOf(observations, 0));
    expect(rowOf(observations, 1)).toEqual(rowOf(observations, 2));
  });

  test("a saved state goes back to its row, onto others, and to all targets of a mask", async () => {
    await pool.reset();
    await pool.step([5, 6, 7, 8]);
    const states = await pool.save({ where: [2, 1] });
    expect(states).toMatchObject([
      { poolId: pool.id, row: 2, step: 1, way: "fork", pending: false, lost: null, pssBytes: null },
      { row: 1, step: 1 },
    ]);
    expect(states[0]?.createdAt.getTime()).toBeGreaterThan(0);
    const first = await pool.step([1, 1, 1, 1]);
    await pool.reset();
    await pool.restore(states);
    const second = await pool.step([1, 1, 1, 1]);
    for (const row of [1, 2]) expect(rowOf(second.observations, row)).toEqual(rowOf(first.observations, row));
    const [one] = states;
    await pool.restore(one as SavedState, { where: [true, false, false, true] });
    const third = await pool.step([1, 0, 0, 1]);
    expect([0, 3].map((row) => rowOf(third.observations, row))).toEqual(
      [2, 2].map((row) => rowOf(first.observations, row)),
    );
    expect((await pool.states({ memory: true })).map(({ row, pssBytes }) => [row, Number(pssBytes) > 0])).toEqual([
      [1, true],
      [2, true],
    ]);
    expect(await pool.drop(one)).toEqual([one?.id]);
    await expect(pool.restore(states, { where: [0, 1] })).rejects.toBeInstanceOf(NotFoundError);
    expect(await pool.drop()).toEqual([states[1]?.id]);
    expect(await pool.states()).toEqual([]);
  });

  test("a save's states have the order of where, so that a restore to the same where exchanges nothing", async () => {
    await pool.reset();
    const saved = await pool.step([5, 6, 7, 8]);
    const where = [3, 0, 2];
    const states = await pool.save(where);
    expect(states.map(({ row }) => row)).toEqual(where);
    expect((await pool.save([true, false, false, true])).map(({ row }) => row)).toEqual([0, 3]);
    await pool.step([1, 1, 1, 1]);
    const { observations } = await pool.restore(states, { where });
    for (const row of where) expect(rowOf(observations, row)).toEqual(rowOf(saved.observations, row));
    await pool.drop();
  });

  test("reseeded copies part, and tell what was reseeded", async () => {
    await pool.reset();
    const { reseeded } = await pool.fork(0, [1, 3], { reseed: true });
    expect([...reseeded.keys()]).toEqual([1, 3]);
    expect(reseeded.get(3)).toContain("random");
    const { observations } = await pool.step([0, 0, 0, 0]);
    const places = [0, 1, 3].map((row) => observations.at(row, 0));
    expect(new Set(places).size).toBe(3);
  });

  test("what cannot be copied is an error that names the row and what stands in the way; nothing has changed", async () => {
    await pool.reset({ options: [null, null, { thread: true }, null] });
    const error = await pool.fork([0, 2], [1, 3]).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ForkUnsupportedError);
    const { sources, message, status } = error as ForkUnsupportedError;
    expect([status, sources.map(({ row, state }) => [row, state])]).toEqual([422, [[2, null]]]);
    expect(sources[0]?.text).toMatch(/threads: /);
    expect(message).toMatch(/^row 2 cannot be copied: threads: /);
    expect((await pool.step([1, 1, 1, 1])).errors.size).toBe(0);
    await pool.reset();
  });

  test("wrong arguments are refused before anything is sent; nothing to do is no request", async () => {
    await expect(pool.fork(0, [0, 0])).rejects.toBeInstanceOf(ArgumentError);
    await expect(pool.save({ rows: [0] } as never)).rejects.toThrow(/save has no option rows/);
    await expect(pool.restore("st_x" as never)).rejects.toBeInstanceOf(ArgumentError);
    const batches = pool.timing.summary().batches;
    expect((await pool.fork([], [])).observations.shape).toEqual([4, 2]);
    expect([await pool.save([]), await pool.drop([])]).toEqual([[], []]);
    expect(pool.timing.summary().batches).toBe(batches);
  });

  test("while rows are out nothing is copied", async () => {
    pool.send([1], [0]);
    await expect(pool.save()).rejects.toMatchObject({ code: "pool_busy" });
    await pool.recv();
  });

  test("a fork or save whose answer was lost is asked for again and done once", async () => {
    const options = { n: 2, shards: 1, memory: "256MiB", workspace: "16MiB" } as const;
    const made = await makePool<NdArray>(server, "branching", options);
    rmSync(made.description.endpoint?.socket as string);
    const cut = await RLPool.attach<NdArray>(made.id, { url: `http://127.0.0.1:${proxy.port}`, apiKey: server.key });
    proxy.cutNextAnswers(2);
    const saved = await cut.save();
    expect(proxy.cuts()).toBe(2);
    expect((await cut.states()).map(({ id }) => id)).toEqual(saved.map(({ id }) => id));
    await cut.step([3, 4]);
    proxy.cutNextAnswers(1);
    const { observations } = await cut.fork([0, 1], [1, 0]);
    expect([observations.at(0, 0), observations.at(1, 0)].map((place) => Math.floor(Number(place)))).toEqual([4, 3]);
    await made.close();
    await expect(cut.save()).rejects.toBeInstanceOf(SandpoolError);
    await cut.detach();
  });
});
