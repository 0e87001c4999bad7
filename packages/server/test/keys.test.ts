import { readdir, readFile } from "node:fs/promises";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer, temporaryFolder } from "./startTestServer.ts";

/** The status of a request on the agent's own connection. */
function statusOn(agent: Agent, server: TestServer, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` };
    httpRequest({ host: "127.0.0.1", port: server.port, path: "/v1/pools", agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    })
      .on("error", reject)
      .end();
  });
}

describe("a key", () => {
  test("is shown once and stored as a hash only", async () => {
    const server = await startTestServer();
    const made = await server.post("/v1/keys", { name: "trainer" });
    expect(made.status).toBe(201);
    expect(made.headers["cache-control"]).toBe("no-store");
    const secret = String(made.json.key);
    expect((await server.send({ path: "/v1/pools", key: secret })).status).toBe(200);
    const list = (await server.send({ path: "/v1/keys" })).bytes.toString();
    expect(list).toContain('"trainer"');
    expect(list).not.toContain(secret);
    for (const name of await readdir(server.dataDir)) {
      const bytes = await readFile(join(server.dataDir, name)).catch(() => Buffer.alloc(0));
      expect([name, bytes.includes(secret), bytes.includes(server.running.key)]).toEqual([name, false, false]);
    }
  });

  test("never reaches the log, whatever happens to the request", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    await server.post(`/v1/pools/${id}/step`, { seq: 98, actions: [] });
    await server.post("/v1/keys", { name: "another" });
    await server.send({ path: "/v1/pools", key: "sp_marker_of_a_wrong_key" });
    const log = server.logLines.join("");
    expect(log).toContain('"kind":"key.create"');
    expect(log).not.toContain(server.running.key);
    expect(log).not.toContain("sp_marker_of_a_wrong_key");
  });

  test("that is revoked stops working at once, on open connections too", async () => {
    const server = await startTestServer();
    const { id, key } = (await server.post("/v1/keys", { name: "short" })).json as { id: string; key: string };
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect(await statusOn(agent, server, key)).toBe(200);
    expect(await statusOn(agent, server, key)).toBe(200);
    expect((await server.send({ method: "DELETE", path: `/v1/keys/${id}` })).json).toEqual({ id, revoked: true });
    expect(await statusOn(agent, server, key)).toBe(401);
    agent.destroy();
  });

  test("on a connection that another key used is judged by itself", async () => {
    const server = await startTestServer();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    expect(await statusOn(agent, server, server.running.key)).toBe(200);
    expect(await statusOn(agent, server, "sp_wrong")).toBe(401);
    agent.destroy();
  });

  test("of another owner is made by an administrator only, and the last administrator's stays", async () => {
    const server = await startTestServer();
    const other = (await server.post("/v1/keys", { name: "theirs", owner: "other" })).json;
    expect(other).toMatchObject({ owner: "other", admin: false });
    const key = String(other.key);
    const own = await server.send({ method: "POST", path: "/v1/keys", body: '{"name":"mine"}', key });
    expect(own.json).toMatchObject({ owner: "other", admin: false });
    const foreign = await server.send({ method: "POST", path: "/v1/keys", body: '{"name":"x","owner":"local"}', key });
    expect([foreign.status, foreign.json.error?.code]).toEqual([403, "forbidden"]);
    const [first] = ((await server.send({ path: "/v1/keys" })).json.keys as { id: string }[]) ?? [];
    expect((await server.send({ method: "DELETE", path: `/v1/keys/${first?.id}`, key })).status).toBe(404);
    const last = await server.send({ method: "DELETE", path: `/v1/keys/${first?.id}` });
    expect(last.json.error?.code).toBe("conflict");
  });

  test("with a name of control characters is refused", async () => {
    const server = await startTestServer();
    expect((await server.post("/v1/keys", { name: "\u001b[2J" })).status).toBe(400);
    expect((await server.post("/v1/keys", { name: "a\u009b31m" })).status).toBe(400);
  });
});

test("the data folder is the user's alone", async () => {
  const server = await startTestServer({ dataDir: join(await temporaryFolder(), "data") });
  const { stat } = await import("node:fs/promises");
  expect((await stat(server.dataDir)).mode & 0o777).toBe(0o700);
  expect((await stat(join(server.dataDir, "sandpool.sqlite"))).mode & 0o777).toBe(0o600);
});
