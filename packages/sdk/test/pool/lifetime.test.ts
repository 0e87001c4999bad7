import { spawn } from "node:child_process";
import { readdirSync, readlinkSync, rmSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RLPool } from "../../src/index.ts";
import { fixture, makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
}, 60_000);
afterAll(() => server?.stop(), 60_000);

/** Sockets of this process. */
function countSockets(): number {
  const links = readdirSync("/proc/self/fd").map((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      return "";
    }
  });
  return links.filter((link) => link.startsWith("socket:")).length;
}

describe("a pool object", { timeout: 60_000 }, () => {
  test("leaves no socket behind when it is closed or detached", async () => {
    const before = countSockets();
    for (const end of ["close", "detach"] as const) {
      const pool = await makePool(server, "pacing", { n: 2 });
      await pool.step([0, 0]);
      pool.send([0, 0]);
      await pool.recv({ minReady: 2 });
      expect(countSockets()).toBeGreaterThan(before);
      await pool[end]();
    }
    // Shared connections of single requests end after a few idle seconds.
    await expect.poll(countSockets, { timeout: 20_000 }).toBeLessThanOrEqual(before);
  });

  test("ends whoever waits when it is closed, and refuses every call afterwards", async () => {
    const pool = await makePool(server, "pacing", { n: 2 });
    pool.send([50], [0]);
    const env = await pool.env();
    const waits = [pool.recv(), env.reset().then(() => env.step(50)), pool.env()];
    const ends = waits.map((wait) => wait.catch((error: unknown) => error));
    await expect(pool.recv({ timeoutMs: 1 }).catch((error: unknown) => error)).resolves.toMatchObject({
      code: "pool_busy",
    });
    await pool.close();
    for (const error of await Promise.all(ends)) {
      expect(error).toMatchObject({ name: "PoolEndedError", code: "pool_closed" });
    }
    expect(() => pool.send([0, 0])).toThrow(/is closed on this client/);
    for (const call of [() => pool.recv(), () => pool.env(), () => pool.step([0, 0]), () => pool.logs(0)]) {
      await expect(call()).rejects.toMatchObject({ name: "PoolEndedError" });
    }
    expect(pool.closed).toBe(true);
  });

  test("is closed at the end of its block, one that joined only detaches", async () => {
    let id = "";
    {
      await using pool = await makePool(server, "pacing", { n: 2 });
      id = pool.id;
      {
        await using joined = await RLPool.attach(id, { url: server.url, apiKey: server.key });
        joined.send([0, 0]);
        await joined.recv({ minReady: 2 });
      }
      pool.send([0, 0]);
      const { observations } = await pool.recv({ minReady: 2 });
      expect(observations.at(0, 1)).toBe(2);
    }
    await expect(RLPool.attach(id, { url: server.url, apiKey: server.key })).rejects.toMatchObject({
      code: "pool_closed",
    });
  });

  test("goes on over TCP when the server's unix socket is gone", async () => {
    await using pool = await makePool(server, "pacing", { n: 2 });
    rmSync(pool.description.endpoint?.socket as string);
    expect([...(await pool.step([1, 0])).rewards]).toEqual([1, 0]);
    pool.send([1, 0]);
    expect((await pool.recv({ minReady: 2 })).rewards.toSorted()).toEqual(Float64Array.of(0, 1));
  });

  test("that is not closed lets its program end", async () => {
    const source = `
      import { RLPool } from ${JSON.stringify(import.meta.resolve("../../src/index.ts"))};
      const pool = await RLPool.create(${JSON.stringify(fixture("pacing"))}, { n: 2 });
      await pool.step([0, 0]);
      pool.send([0, 0]);
      await pool.recv({ minReady: 2 });
      const env = await pool.env();
      await env.reset();
      console.log("done");`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
      env: { ...server.variables, SANDPOOL_URL: server.url, SANDPOOL_API_KEY: server.key },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [output, code] = await Promise.all([
      child.stdout.setEncoding("utf8").toArray(),
      new Promise((resolve) => child.once("exit", resolve)),
    ]);
    expect([output.join("").trim(), code]).toEqual(["done", 0]);
  });
});

describe("a step that was aborted", { timeout: 60_000 }, () => {
  test("is settled before the next call, also before a send", async () => {
    await using pool = await makePool(server, "pacing", { n: 2 });
    const abortLater = (): AbortSignal => {
      const aborting = new AbortController();
      setTimeout(() => aborting.abort(new Error("enough")), 50);
      return aborting.signal;
    };
    await expect(pool.step([5, 5], { signal: abortLater() })).rejects.toThrow("enough");
    expect((await pool.step([0, 0])).observations.at(0, 1)).toBe(2);
    await expect(pool.step([5, 5], { signal: abortLater() })).rejects.toThrow("enough");
    pool.send([0, 0]);
    const { observations } = await pool.recv({ minReady: 2 });
    expect([observations.at(0, 1), observations.at(1, 1)]).toEqual([4, 4]);
    await expect(pool.reset({ signal: AbortSignal.abort(new Error("never sent")) })).rejects.toThrow("never sent");
    expect((await pool.getAttr("steps")).results).toEqual([4, 4]);
  });
});
