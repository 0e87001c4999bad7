import { request as httpRequest } from "node:http";
import { CreatePoolRequest, PoolReply } from "@sandpool/protocol";
import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import { POOL, startTestServer, type TestServer, until } from "./startTestServer.ts";

/** Starts a create and returns what ends its connection. */
function begin(server: TestServer, value: unknown, headers: Record<string, string> = {}): { abort(): void } {
  const request = httpRequest({
    host: "127.0.0.1",
    port: server.port,
    method: "POST",
    path: "/v1/pools",
    agent: false,
    headers: { authorization: `Bearer ${server.running.key}`, "content-type": "application/json", ...headers },
  });
  request.on("error", () => {});
  request.on("response", (response) => response.resume());
  request.end(JSON.stringify(value));
  return { abort: () => request.destroy() };
}

const NDJSON = { accept: "application/x-ndjson" };

function lines(bytes: Buffer): { event: string; [member: string]: unknown }[] {
  return bytes
    .toString()
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

describe("a create", () => {
  test("answers 201 with a pool of the described form and where to step it", async () => {
    const server = await startTestServer();
    const reply = await server.post("/v1/pools", { ...POOL, name: "walkers", seed: 7 });
    expect(reply.status).toBe(201);
    expect(Compile(PoolReply).Check(reply.json)).toBe(true);
    expect(reply.json).toMatchObject({ name: "walkers", n: 4, seed: 7, endpoint: { url: server.running.url } });
  });

  test("hands the worker the defaults filled in and the body's own bytes", async () => {
    const server = await startTestServer();
    const body = `{"archive":"${POOL.archive}","entry":"env.py","n":2,"config":{"x":1.0,"y":${"7".repeat(40)}}}`;
    await server.send({ method: "POST", path: "/v1/pools", body });
    const [held] = server.worker.live.values();
    expect(held?.pool.rawBody.toString()).toBe(body);
    expect(Compile(CreatePoolRequest).Check(held?.pool.request)).toBe(true);
  });

  test("that fails answers with the failure's own status and leaves nothing", async () => {
    const server = await startTestServer();
    const reply = await server.post("/v1/pools", { ...POOL, config: { fail: true } });
    expect([reply.status, reply.json.error?.code]).toEqual([422, "environment_failed"]);
    expect(reply.json.error?.details).toEqual({ row: 1 });
    expect((await server.send({ path: "/v1/pools" })).json.pools).toEqual([]);
  });

  test("streams accepted at once, progress, heartbeats and last the pool", async () => {
    const server = await startTestServer({ limits: { heartbeatMs: 10 } });
    const body = JSON.stringify({ ...POOL, config: { delayMs: 100 } });
    const reply = await server.send({ method: "POST", path: "/v1/pools", body, headers: NDJSON });
    expect(reply.headers["content-type"]).toBe("application/x-ndjson");
    const events = lines(reply.bytes);
    expect(events[0]).toEqual({ event: "accepted", id: expect.stringMatching(/^op_/) });
    expect(events.at(-1)).toMatchObject({ event: "pool", pool: { n: 4, endpoint: { url: server.running.url } } });
    expect(new Set(events.slice(1, -1).map((line) => line.event))).toEqual(new Set(["progress", "heartbeat"]));
  });

  test("that fails while it streams ends with the error and its status", async () => {
    const server = await startTestServer();
    const body = JSON.stringify({ ...POOL, config: { fail: true } });
    const events = lines((await server.send({ method: "POST", path: "/v1/pools", body, headers: NDJSON })).bytes);
    expect(events.at(-1)).toMatchObject({
      event: "error",
      status: 422,
      error: { code: "environment_failed", details: { row: 1 } },
    });
  });

  test.each([
    ["streamed", NDJSON],
    ["plain", {}],
  ])("%s is rolled back when its caller goes away", async (_name, headers) => {
    const server = await startTestServer();
    const caller = begin(server, { ...POOL, config: { wait: true } }, headers);
    await until(() => server.worker.created.length === 1);
    caller.abort();
    await until(() => server.worker.rolledBack.length === 1);
    expect(server.worker.live.size).toBe(0);
    await until(() => server.logLines.some((line) => line.includes('"error_code":"creation_aborted"')));
  });

  test("is rolled back when the server stops, and its caller hears so", async () => {
    const server = await startTestServer();
    const plain = server.post("/v1/pools", { ...POOL, config: { wait: true } });
    const body = JSON.stringify({ ...POOL, config: { wait: true } });
    const streamed = server.send({ method: "POST", path: "/v1/pools", body, headers: NDJSON });
    await until(() => server.worker.created.length === 2);
    await server.running.close();
    expect([(await plain).status, (await plain).json.error?.code]).toEqual([503, "server_closing"]);
    expect(lines((await streamed).bytes).at(-1)).toMatchObject({ event: "error", status: 503 });
    expect(server.worker.rolledBack).toEqual(server.worker.created);
  });
});

describe("an Idempotency-Key", () => {
  const key = { "idempotency-key": "b3f1" };

  test("lets a creation outlive its connection, and the repeat gets the same pool", async () => {
    const server = await startTestServer();
    const request = { ...POOL, config: { delayMs: 100 } };
    const caller = begin(server, request, { ...key, ...NDJSON });
    await until(() => server.worker.created.length === 1);
    caller.abort();
    const repeated = await server.post("/v1/pools", request, key);
    expect([repeated.status, repeated.json.id]).toEqual([201, server.worker.created[0]]);
    const again = await server.post("/v1/pools", request, key);
    expect([again.status, again.json.id]).toEqual([201, repeated.json.id]);
    expect(server.worker.created).toHaveLength(1);
  });

  test("makes one pool of many requests at the same moment", async () => {
    const server = await startTestServer();
    const request = { ...POOL, config: { delayMs: 30 } };
    const replies = await Promise.all(Array.from({ length: 8 }, () => server.post("/v1/pools", request, key)));
    expect(new Set(replies.map((reply) => reply.json.id)).size).toBe(1);
    expect(server.worker.created).toHaveLength(1);
  });

  test("of another request is a conflict, while it runs and after", async () => {
    const server = await startTestServer();
    const running = server.post("/v1/pools", { ...POOL, config: { delayMs: 50 } }, key);
    await until(() => server.worker.created.length === 1);
    expect((await server.post("/v1/pools", { ...POOL, n: 5 }, key)).json.error?.code).toBe("conflict");
    await running;
    expect((await server.post("/v1/pools", { ...POOL, n: 5 }, key)).json.error?.code).toBe("conflict");
  });

  test("of a failed create may be tried again", async () => {
    const server = await startTestServer();
    const request = { ...POOL, config: { fail: true } };
    expect((await server.post("/v1/pools", request, key)).status).toBe(422);
    expect((await server.post("/v1/pools", request, key)).status).toBe(422);
    expect(server.worker.created).toHaveLength(2);
  });

  test("of a pool that was deleted does not make it anew", async () => {
    const server = await startTestServer();
    const made = await server.post("/v1/pools", POOL, key);
    await server.send({ method: "DELETE", path: `/v1/pools/${made.json.id}` });
    expect((await server.post("/v1/pools", POOL, key)).json.error?.code).toBe("pool_closed");
  });

  test("belongs to its owner", async () => {
    const server = await startTestServer();
    const other = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
    const mine = await server.post("/v1/pools", POOL, key);
    const theirs = await server.send({
      method: "POST",
      path: "/v1/pools",
      body: JSON.stringify(POOL),
      headers: key,
      key: other,
    });
    expect(theirs.status).toBe(201);
    expect(theirs.json.id).not.toBe(mine.json.id);
  });

  test("out of form is refused", async () => {
    const server = await startTestServer();
    for (const bad of [" ", "a b", "x".repeat(201)]) {
      expect((await server.post("/v1/pools", POOL, { "idempotency-key": bad })).status).toBe(400);
    }
  });
});
