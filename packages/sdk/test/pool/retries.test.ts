import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConnectionError, RLPool } from "../../src/index.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cuttingProxy.ts";
import { startServer, type TestServer } from "../support/server.ts";

const COUNTING = join(import.meta.dirname, "../fixtures/counting");

let server: TestServer;
let proxy: CuttingProxy;
let pool: RLPool;

beforeAll(async () => {
  proxy = await startCuttingProxy();
  // A server answers only to its own names, so the proxy's is one of them.
  server = await startServer("--allow-host", `127.0.0.1:${proxy.port}`);
  proxy.leadTo(Number(new URL(server.url).port));
  const made = await RLPool.create(COUNTING, { n: 2, name: "cut" }, { url: server.url, apiKey: server.key });
  // Without its unix socket the server is reached through the proxy only.
  rmSync(made.description.endpoint?.socket as string);
  pool = await RLPool.attach("cut", { url: `http://127.0.0.1:${proxy.port}`, apiKey: server.key });
}, 60_000);
afterAll(async () => {
  proxy?.close();
  await server?.stop();
}, 60_000);

describe("a batch whose answer was lost", { timeout: 60_000 }, () => {
  test("is asked for again under its number and runs once", async () => {
    proxy.cutNextAnswers(2);
    const result = await pool.step(["a", "b"]);
    expect(proxy.cuts()).toBe(2);
    expect(result.observations).toMatchObject([
      { action: "a", steps: 1 },
      { action: "b", steps: 1 },
    ]);
  });

  test("while it still runs, is waited for", async () => {
    const step = pool.step(["slow", "slow"]);
    setTimeout(() => proxy.cutNextAnswers(1), 100);
    expect((await step).observations).toMatchObject([{ steps: 2 }, { steps: 2 }]);
  });

  test("and stays lost, is an error; the next call settles it first", async () => {
    proxy.cutNextAnswers(1_000);
    await expect(pool.step(["lost", "lost"])).rejects.toBeInstanceOf(ConnectionError);
    proxy.cutNextAnswers(0);
    expect((await pool.step(["next", "next"])).observations).toMatchObject([
      { action: "next", steps: 4 },
      { action: "next", steps: 4 },
    ]);
  });
});
