import { spawn } from "node:child_process";
import { createServer as createHttp } from "node:http";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { createLogger, createServer } from "../src/index.ts";
import { POOL, startTestServer, temporaryFolder, until } from "./startTestServer.ts";
import { TestWorker } from "./testWorker.ts";

const SERVE = new URL("serveUntilKilled.ts", import.meta.url).pathname;

/** A real server process on the folder; resolves when it listens and holds one pool. */
async function serveInChild(dataDir: string) {
  const child = spawn(process.execPath, [SERVE, dataDir], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  let text = "";
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (text.endsWith("\n")) break;
  }
  return { child, pid: child.pid, ...(JSON.parse(text) as { url: string; key: string; poolId: string }) };
}

describe("a server that was killed", () => {
  test("leaves pools that answer pool_lost, by id and by name, and frees its data folder", async () => {
    const dataDir = await temporaryFolder();
    const killed = await serveInChild(dataDir);
    killed.child.kill("SIGKILL");
    await until(() => killed.child.signalCode !== null);
    const server = await startTestServer({ dataDir });
    for (const idOrName of [killed.poolId, "walkers"]) {
      const step = await server.send({
        method: "POST",
        path: `/v1/pools/${idOrName}/step`,
        body: '{"seq":1,"actions":[]}',
        key: killed.key,
      });
      expect([step.status, step.json.error?.code]).toEqual([410, "pool_lost"]);
    }
    const deleted = await server.send({ method: "DELETE", path: `/v1/pools/${killed.poolId}`, key: killed.key });
    expect(deleted.json).toEqual({ id: killed.poolId, closed: true });
  });

  test("leaves an Idempotency-Key that makes the lost pool anew", async () => {
    const dataDir = await temporaryFolder();
    const killed = await serveInChild(dataDir);
    killed.child.kill("SIGKILL");
    await until(() => killed.child.signalCode !== null);
    const server = await startTestServer({ dataDir });
    const body = JSON.stringify({ ...POOL, name: "walkers" });
    const again = await server.send({
      method: "POST",
      path: "/v1/pools",
      body,
      key: killed.key,
      headers: { "idempotency-key": "once" },
    });
    expect(again.status).toBe(201);
    expect(again.json.id).not.toBe(killed.poolId);
  });
});

test("a second server on a data folder names the first one's pid", async () => {
  const dataDir = await temporaryFolder();
  const first = await serveInChild(dataDir);
  const second = createServer({
    worker: new TestWorker(),
    dataDir,
    listen: "127.0.0.1:0",
    credentialsFile: null,
    logger: createLogger({ level: "silent" }),
  });
  await expect(second).rejects.toMatchObject({ code: "data_folder_locked", details: { pid: first.pid } });
  await expect(second).rejects.toThrow(`process ${first.pid}`);
  first.child.kill("SIGKILL");
});

test("a server that cannot listen frees its data folder", async () => {
  const taken = createHttp().listen(0, "127.0.0.1");
  await until(() => taken.listening);
  const { port } = taken.address() as { port: number };
  const dataDir = await temporaryFolder();
  await expect(startTestServer({ dataDir, listen: `127.0.0.1:${port}` })).rejects.toMatchObject({ code: "EADDRINUSE" });
  taken.close();
  expect((await (await startTestServer({ dataDir })).send({ path: "/v1/health" })).status).toBe(200);
});

test("a data folder of a newer version is refused", async () => {
  const dataDir = await temporaryFolder();
  await (await startTestServer({ dataDir })).running.close();
  const database = new DatabaseSync(join(dataDir, "sandpool.sqlite"));
  database.exec("INSERT INTO kysely_migration (name, timestamp) VALUES ('9999_later', '2030')");
  database.close();
  await expect(startTestServer({ dataDir })).rejects.toMatchObject({ code: "data_folder_unknown" });
});

describe("a stopped server", () => {
  test("closes its pools and the next one says so", async () => {
    const dataDir = await temporaryFolder();
    const first = await startTestServer({ dataDir });
    const id = await first.createPool();
    await first.running.close();
    expect(first.worker.live.size).toBe(0);
    const second = await startTestServer({ dataDir });
    const reply = await second.send({ path: `/v1/pools/${id}`, key: first.running.key });
    expect(reply.json.error).toMatchObject({ code: "pool_closed", details: { id, reason: "server_stopped" } });
  });

  test("keeps keys that were made and forgets those revoked", async () => {
    const dataDir = await temporaryFolder();
    const first = await startTestServer({ dataDir });
    const kept = (await first.post("/v1/keys", { name: "kept" })).json;
    const gone = (await first.post("/v1/keys", { name: "gone" })).json;
    await first.send({ method: "DELETE", path: `/v1/keys/${gone.id}` });
    await first.running.close();
    const second = await startTestServer({ dataDir });
    expect((await second.send({ path: "/v1/pools", key: String(kept.key) })).status).toBe(200);
    expect((await second.send({ path: "/v1/pools", key: String(gone.key) })).status).toBe(401);
  });
});

describe("a pool that ended", () => {
  test("by its lease says so", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    server.worker.live.delete(id);
    const reply = await server.post(`/v1/pools/${id}/lease`, {});
    expect(reply.json.error).toMatchObject({ code: "pool_closed", details: { reason: "lease" } });
  });

  test("by a delete says so, frees its name, and may be deleted again", async () => {
    const server = await startTestServer();
    const id = await server.createPool({ name: "walkers" });
    for (let repeat = 0; repeat < 2; repeat += 1) {
      expect((await server.send({ method: "DELETE", path: `/v1/pools/${id}` })).json).toEqual({ id, closed: true });
    }
    expect((await server.send({ path: `/v1/pools/${id}` })).json.error?.code).toBe("pool_closed");
    const next = await server.createPool({ name: "walkers" });
    expect((await server.send({ path: "/v1/pools/walkers" })).json.id).toBe(next);
  });

  test("that never was answers 404", async () => {
    const server = await startTestServer();
    const reply = await server.send({ path: "/v1/pools/constructor" });
    expect([reply.status, reply.json.error?.code]).toEqual([404, "pool_not_found"]);
  });
});

test("a lease request keeps the pool alive and a log is plain text that no browser runs", async () => {
  const server = await startTestServer();
  const id = await server.createPool();
  expect((await server.post(`/v1/pools/${id}/lease`, {})).json).toEqual({
    lease: 600,
    expires_at: "1970-01-01T00:00:00.000Z",
  });
  expect([...server.worker.live.values()][0]?.pool.keptAlive).toBe(1);
  const log = await server.send({ path: `/v1/pools/${id}/logs?row=3` });
  expect(log.bytes.toString("latin1")).toBe("row 3\u001b[31m\xff");
  expect(log.headers).toMatchObject({ "x-content-type-options": "nosniff", "content-security-policy": "sandbox" });
  expect((await server.send({ path: `/v1/pools/${id}/logs?row=4` })).json.error?.message).toContain("rows 0 to 3");
});
