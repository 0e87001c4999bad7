import { rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type NdArray, RLPool, Sandpool } from "../../src/index.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cuttingProxy.ts";
import { makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
let proxy: CuttingProxy;

beforeAll(async () => {
  proxy = await startCuttingProxy();
  server = await startServer("--allow-host", `127.0.0.1:${proxy.port}`);
  proxy.leadTo(Number(new URL(server.url).port));
}, 60_000);
afterAll(async () => {
  proxy?.close();
  await server?.stop();
}, 60_000);

/** A pool that is reached through the proxy only. */
async function makeThroughProxy(n: number): Promise<RLPool<NdArray>> {
  const made = await makePool(server, "pacing", { n });
  rmSync(made.description.endpoint?.socket as string, { force: true });
  await made.detach();
  return RLPool.attach<NdArray>(made.id, { url: `http://127.0.0.1:${proxy.port}`, apiKey: server.key, warn: false });
}

/** A fixed sequence of numbers from 0 to 1. */
function makeRandom(): () => number {
  let state = 1;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

describe("a stream whose connection breaks", { timeout: 60_000 }, () => {
  test("neither loses nor repeats a step, whenever it is cut", async () => {
    const pool = await makeThroughProxy(4);
    const random = makeRandom();
    pool.sendReset();
    await pool.recv({ minReady: 4 });
    const steps = [0, 0, 0, 0];
    pool.send([0, 0, 0, 0]);
    for await (const { index, observations } of pool.results()) {
      for (const [place, row] of index.entries()) {
        steps[row] = (steps[row] as number) + 1;
        expect(observations.at(place, 1)).toBe(steps[row]);
      }
      if (random() < 0.1) proxy.cut();
      if (random() < 0.1) proxy.cutNextAnswers(1);
      const again = index.filter((row) => (steps[row] as number) < 40);
      pool.send(new Int32Array(again.length), again);
      if (random() < 0.1) proxy.cut();
    }
    expect(steps).toEqual([40, 40, 40, 40]);
    expect(proxy.cuts()).toBeGreaterThan(5);
    expect((await pool.getAttr("steps")).results).toEqual(steps);
    await pool.close();
  });

  test("also carries environments that are checked out on", async () => {
    const pool = await makeThroughProxy(2);
    const rollout = async (seed: number): Promise<void> => {
      await using env = await pool.env<NdArray>();
      await env.reset({ seed });
      for (let step = 1; step <= 10; step += 1) {
        if (step % 4 === 0) proxy.cut();
        expect((await env.step(0)).observation.toList()).toEqual([env.index, step, seed]);
      }
    };
    await Promise.all([1, 2, 3].map(rollout));
    await pool.close();
  });

  test("gives way to another client while nothing is out, and begins a new session afterwards", async () => {
    const pool = await makeThroughProxy(2);
    pool.send([0, 0]);
    await pool.recv({ minReady: 2 });
    const other = await RLPool.attach<NdArray>(pool.id, { url: server.url, apiKey: server.key });
    other.send([0, 0]);
    // Ours is connected, so the other's is refused.
    await expect(other.recv({ minReady: 2 })).rejects.toMatchObject({ status: 409 });
    proxy.cut();
    await expect
      .poll(async () => {
        other.send([0, 0]);
        return (await other.recv({ minReady: 2 }).catch(() => null))?.observations.toList() ?? null;
      })
      .toMatchObject([
        [expect.any(Number), 2, expect.any(Number)],
        [expect.any(Number), 2, expect.any(Number)],
      ]);
    await other.detach();
    pool.send([0, 0]);
    const { observations } = await pool.recv({ minReady: 2 });
    expect([observations.at(0, 1), observations.at(1, 1)]).toEqual([3, 3]);
    await pool.close();
  });

  test("and cannot be opened again is an error that loses nothing", async () => {
    const pool = await makeThroughProxy(2);
    pool.sendReset({ seed: 1 });
    await pool.recv({ minReady: 2 });
    pool.send([30, 30]);
    await expect(pool.recv({ timeoutMs: 100 })).rejects.toMatchObject({ code: "deadline_passed" });
    proxy.leadTo(9);
    proxy.cut();
    await expect(pool.recv({ minReady: 2 })).rejects.toMatchObject({
      code: "connection_failed",
      message: expect.stringMatching(/broke or could not be opened 7 times in a row/),
    });
    expect(pool.rowsOut).toEqual([0, 1]);
    proxy.leadTo(Number(new URL(server.url).port));
    const { index, observations } = await pool.recv({ minReady: 2 });
    expect(index.map((row, place) => [row, observations.at(place, 1)]).sort()).toEqual([
      [0, 1],
      [1, 1],
    ]);
    await pool.close();
  });

  test("and cannot be opened again ends every wait for what is out, each time it is asked", async () => {
    const pool = await makeThroughProxy(2);
    const [first, second] = [await pool.env<NdArray>(), await pool.env<NdArray>()];
    await Promise.all([first.reset(), second.reset()]);
    const steps = [first.step(5), second.step(5)];
    proxy.leadTo(9);
    await expect.poll(() => pool.timing.summary().batches).toBeGreaterThan(0);
    proxy.cut();
    const refused = { code: "connection_failed" };
    await Promise.all(steps.map((step) => expect(step).rejects.toMatchObject(refused)));
    await Promise.all([
      expect(first.reset()).rejects.toMatchObject(refused),
      expect(second.call("scaled", { args: [1] })).rejects.toMatchObject(refused),
      expect(pool.env()).rejects.toMatchObject(refused),
    ]);
    second.release();
    proxy.leadTo(Number(new URL(server.url).port));
    expect((await first.reset({ seed: 3 })).observation.toList()).toEqual([first.index, 0, 3]);
    first.release();
    expect((await pool.reset({ seed: 5 })).observations.toList()).toEqual([
      [0, 0, 5],
      [1, 0, 6],
    ]);
    await pool.close();
  });
});

describe("a stream that the server ends", { timeout: 60_000 }, () => {
  test("says why, and results that came before can still be taken", async () => {
    const pool = await makePool(server, "pacing", { n: 2 });
    pool.send([50, 0]);
    await expect.poll(() => pool.timing.summary().batches).toBe(1);
    await new Sandpool({ url: server.url, apiKey: server.key }).closePool(pool.id);
    await expect(pool.recv({ minReady: 2 })).rejects.toMatchObject({
      name: "PoolEndedError",
      code: "pool_closed",
      details: { reason: "deleted" },
    });
    expect((await pool.recv()).index).toEqual([1]);
    expect(pool.rowsOut).toEqual([]);
    pool.send([0, 0]);
    await expect(pool.recv()).rejects.toMatchObject({ name: "PoolEndedError" });
    await pool.close();
  });

  test("because its key was deleted is an authentication error", async () => {
    const admin = new Sandpool({ url: server.url, apiKey: server.key });
    const made = await makePool(server, "pacing", { n: 1 });
    const { owner } = (await admin.listKeys())[0] as { owner: string };
    const key = await admin.createKey("short-lived", { owner });
    const pool = await RLPool.attach(made.id, { url: server.url, apiKey: key.key });
    await admin.revokeKey(key.id);
    pool.send([0]);
    await expect(pool.recv()).rejects.toMatchObject({ name: "AuthenticationError", code: "unauthorized" });
    await pool.detach();
    await made.close();
  });

  test("as it stops ends every wait at once", async () => {
    const stopping = await startServer();
    const pool = await makePool(stopping, "pacing", { n: 2 });
    pool.send([0], [0]);
    await pool.recv();
    pool.send([200], [0]);
    const env = await pool.env();
    await env.reset();
    const waits = [pool.recv(), env.step(200)].map((wait) => wait.catch((error: unknown) => error));
    expect(await stopping.stop()).toBe(0);
    for (const error of await Promise.all(waits)) expect(error).toMatchObject({ name: "PoolEndedError" });
    await pool.detach();
  });
});
