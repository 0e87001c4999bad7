import { createConnection } from "node:net";
import { decodeBatch, encodeBatch } from "@sandpool/protocol";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer } from "./startTestServer.ts";
import { PATTERN, type TestPool } from "./testWorker.ts";

const BINARY = "application/vnd.sandpool.batch";

function onlyPool(server: TestServer): TestPool {
  return [...server.worker.live.values()][0]?.pool as TestPool;
}

describe("a batch", () => {
  test("reaches the pool with the body's own bytes, digits and all", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const body = `{"seq": 3,  "actions":[1.0, ${"9".repeat(300)}, {"__proto__":{"x":1}}, null]}`;
    const reply = await server.send({ method: "POST", path: `/v1/pools/${id}/step`, body });
    expect(reply.json.echo).toEqual({ seq: 3, where: null, count: 4, kind: "json" });
    expect(onlyPool(server).lastRaw?.toString()).toBe(body);
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  test("is found by the pool's name and by an unusual spelling of its address", async () => {
    const server = await startTestServer();
    await server.createPool({ name: "walkers" });
    for (const path of ["/v1/pools/walkers/step", "/v1/pools/walker%73/step", "/v1/pools/walkers/step?a=b"]) {
      expect((await server.post(path, { seq: 1, actions: [0, 0, 0, 0] })).json.echo).toMatchObject({ count: 4 });
    }
  });

  test("in binary is a view of the body, and Accept alone chooses the reply's encoding", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const data = Buffer.from(new BigInt64Array([1n, 2n, 3n, 4n]).buffer);
    const field = { name: "actions", dtype: "<i8", shape: [4], data: [data] };
    const body = Buffer.concat(encodeBatch({ seq: 5, where: null }, [field]).chunks);
    const path = `/v1/pools/${id}/step`;
    const json = await server.send({ method: "POST", path, body, headers: { "content-type": BINARY } });
    expect(json.json.echo).toEqual({ seq: 5, where: null, count: 4, kind: "array" });
    expect(onlyPool(server).lastRaw).toEqual(data);
    const binary = await server.send({
      method: "POST",
      path,
      body,
      headers: { "content-type": BINARY, accept: BINARY },
    });
    expect(binary.headers["content-type"]).toBe(BINARY);
    expect(decodeBatch(binary.bytes).fields[0]?.data.length).toBe(64);
  });

  test.each([[1], [200], [300], [4000]])("of %d rows is answered byte for byte, small or large", async (n) => {
    const server = await startTestServer();
    const id = await server.createPool({ n });
    const reply = await server.send({ path: `/v1/pools/${id}/observations`, headers: { accept: BINARY } });
    expect(Number(reply.headers["content-length"])).toBe(reply.bytes.length);
    expect(decodeBatch(reply.bytes).fields[0]?.data.equals(PATTERN.subarray(0, 16 * n))).toBe(true);
  });

  test("reset, call and observations arrive with their members", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const reset = { seq: 1, seed: [1, null, 3, 4], where: null, hard: true, options: { a: [1] } };
    expect((await server.post(`/v1/pools/${id}/reset`, reset)).json.echo).toEqual({ ...reset, op: "reset" });
    const call = { seq: 2, call: "set", name: "gravity", values: [1, 2], per_row: true, where: [0, 3], timeout: 2.5 };
    expect((await server.post(`/v1/pools/${id}/call`, call)).json.echo).toEqual({ ...call, op: "call" });
    expect((await server.send({ path: `/v1/pools/${id}/observations` })).json.echo).toEqual({ op: "observations" });
  });

  test("fork, restore and save arrive with their members; a save makes something, so it answers 201", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const fork = { seq: 1, client: "c", pairs: [[0, 1]], reseed: [null] };
    const forked = await server.post(`/v1/pools/${id}/fork`, fork);
    expect([forked.status, forked.json.echo]).toEqual([200, { ...fork, op: "fork" }]);
    const restore = { seq: 2, pairs: [["st_x", 1]], reseed: true };
    expect((await server.post(`/v1/pools/${id}/restore`, restore)).json.echo).toEqual({ ...restore, op: "restore" });
    const binary = await server.post(`/v1/pools/${id}/fork`, fork, { accept: BINARY });
    expect(decodeBatch(binary.bytes).map.echo).toEqual({ ...fork, op: "fork" });
    const save = { seq: 3, where: [true, false, false, true] };
    const saved = await server.post(`/v1/pools/${id}/states`, save, { accept: BINARY });
    expect([saved.status, saved.json.echo]).toEqual([201, { ...save, op: "save" }]);
    const metrics = (await server.send({ path: "/metrics" })).bytes.toString();
    for (const [operation, rows] of [
      ["fork", 2],
      ["restore", 1],
      ["save", 2],
    ]) {
      expect(metrics).toContain(`sandpool_rows_total{operation="${operation}"} ${rows}`);
    }
  });

  test.each([
    ["fork", { seq: 1 }, /the body is .*pairs/],
    ["fork", { seq: 1, pairs: [[0]] }, /^pairs.0/],
    ["fork", { seq: 1, pairs: [[0, 1, 2]] }, /^pairs.0/],
    ["fork", { seq: 1, pairs: [["st_x", 1]] }, /^pairs.0.0 is "st_x"/],
    ["fork", { seq: 1, pairs: [], reseed: false }, /^reseed is false/],
    ["restore", { seq: 1, pairs: [[0, 1]] }, /^pairs.0.0 is 0/],
    ["states", { seq: 1, rows: [0] }, /must not have "rows"/],
  ])("%s that does not fit is refused, naming what was received: %j", async (name, body, message) => {
    const server = await startTestServer();
    const id = await server.createPool();
    const reply = await server.post(`/v1/pools/${id}/${name}`, body);
    expect([reply.status, reply.json.error?.code]).toEqual([400, "invalid_request"]);
    expect(reply.json.error?.message).toMatch(message);
  });

  test("saved states are listed and dropped; what to drop must be said", async () => {
    const server = await startTestServer();
    const path = `/v1/pools/${await server.createPool()}/states`;
    expect((await server.send({ path })).json).toEqual({ states: [], limits: { states: 0, bytes: 2 } });
    expect((await server.send({ path: `${path}?memory=true` })).json.limits).toEqual({ states: 1, bytes: 2 });
    const drop = (states: unknown) => server.send({ method: "DELETE", path, body: JSON.stringify({ states }) });
    expect((await drop(["st_a"])).json).toEqual({ dropped: ["st_a"] });
    expect((await drop(null)).json).toEqual({ dropped: ["st_all"] });
    for (const reply of [await drop([1]), await drop("all"), await server.send({ method: "DELETE", path })]) {
      expect([reply.status, reply.json.error?.code]).toEqual([400, "invalid_request"]);
    }
  });

  test.each([
    [{ actions: [] }, /the body is .*seq/],
    [{ seq: 0, actions: [] }, /^seq is 0, must be >= 1/],
    [{ seq: 1.5, actions: [] }, /^seq is 1.5, must be integer/],
    [{ seq: 1, actions: "all" }, /^actions is "all", must be array/],
    [{ seq: 1, actions: [], where: [-1] }, /^where.0 is -1/],
    [{ seq: 1, actions: [], admin: true }, /must not have "admin"/],
  ])("that does not fit is refused, naming what was received: %j", async (body, message) => {
    const server = await startTestServer();
    const id = await server.createPool();
    const reply = await server.post(`/v1/pools/${id}/step`, body);
    expect([reply.status, reply.json.error?.code]).toEqual([400, "invalid_request"]);
    expect(reply.json.error?.message).toMatch(message);
  });

  test("with an own member __proto__ is refused and changes no prototype", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    for (const path of [`/v1/pools/${id}/step`, "/v1/pools", "/v1/keys", `/v1/pools/${id}/reset`]) {
      const body = '{"seq":1,"name":"a","actions":[],"archive":"x","__proto__":{"polluted":true}}';
      expect((await server.send({ method: "POST", path, body })).status).toBe(400);
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test("carries the worker's own errors with their details", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const reply = await server.post(`/v1/pools/${id}/step`, { seq: 99, actions: [] });
    expect(reply.status).toBe(409);
    expect(reply.json.error).toMatchObject({ code: "pool_sequence", details: { expected: 1, received: 99 } });
  });

  test("that meets a fault of our own hides it behind an id that the log explains", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const reply = await server.post(`/v1/pools/${id}/step`, { seq: 98, actions: [] });
    expect([reply.status, reply.json.error?.code]).toEqual([500, "internal"]);
    expect(reply.bytes.toString()).not.toContain("/secret");
    const requestId = String(reply.json.error?.details.request_id);
    expect(server.logLines.find((line) => line.includes(requestId))).toContain("a fault with a secret path");
  });

  test("pipelined batches on one connection are answered in order", async () => {
    const server = await startTestServer();
    const id = await server.createPool();
    const one = (seq: number) => {
      const body = JSON.stringify({ seq, actions: [0, 0, 0, 0] });
      return (
        `POST /v1/pools/${id}/step HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAuthorization: Bearer ${server.running.key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
      );
    };
    const socket = createConnection(server.port, "127.0.0.1");
    socket.write(one(1) + one(2) + one(3));
    let text = "";
    for await (const chunk of socket) {
      text += String(chunk);
      if (text.includes('"seq":3')) break;
    }
    expect([...text.matchAll(/"seq":(\d)/g)].map((match) => match[1])).toEqual(["1", "2", "3"]);
  });
});

test("the metrics count batches, rows and error replies", async () => {
  const server = await startTestServer();
  const id = await server.createPool();
  await server.post(`/v1/pools/${id}/step`, { seq: 1, actions: [0, 0, 0, 0] });
  await server.post(`/v1/pools/${id}/step`, { seq: 2, actions: [0, 0], where: [0, 1] });
  await server.post(`/v1/pools/${id}/step`, { seq: 99, actions: [] });
  const observed = await server.send({ path: `/v1/pools/${id}/observations` });
  expect(observed.status).toBe(200);
  const text = (await server.send({ path: "/metrics" })).bytes.toString();
  expect(text).toContain('sandpool_batch_seconds_count{operation="step"} 2');
  expect(text).toContain('sandpool_rows_total{operation="step"} 6');
  expect(text).toContain('sandpool_errors_total{code="pool_sequence"} 1');
  expect(text).toContain('sandpool_failures_total{kind="timeout"} 1');
  expect(text).toContain('sandpool_failures_total{kind="other"} 2');
  expect(text).toContain("sandpool_stragglers_total 1");
  expect(text).not.toContain("from_a_sandbox");
  expect(text).toContain('sandpool_operations_total{kind="pool.create",result="done"} 1');
  expect(text).toContain("sandpool_pools 1");
});
