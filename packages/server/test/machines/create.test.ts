import { makeMachineId } from "@sandpool/protocol";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer, until } from "../startTestServer.ts";

const NDJSON = { accept: "application/x-ndjson" };

async function names(server: TestServer): Promise<unknown[]> {
  const { machines } = (await server.send({ path: "/v1/machines" })).json;
  return (machines as { name: string }[]).map(({ name }) => name);
}

describe("a create", () => {
  test.each([
    ["a name with capitals", { name: "Box" }],
    ["a name shaped like an id", { name: makeMachineId() }],
    ["a size of another word", { size: "huge" }],
    ["a size that is no size", { size: { memory: "1 elephant" } }],
    ["a size too small to run", { size: { memory: "1MiB" } }],
    ["an unknown member", { admin: true }],
    ["a wildcard in the middle", { egress: ["a.*.example.com"] }],
    ["a wildcard alone", { egress: ["*"] }],
    ["an address instead of a host", { egress: ["http://example.com"] }],
    ["both isolated and egress", { isolated: true, egress: ["example.com"] }],
    ["a variable with = in its name", { environment: { "A=B": "c" } }],
    ["a variable with NUL", { environment: { A: "\u0000" } }],
    ["a label with a line break", { labels: { a: "b\nc" } }],
    ["a lifetime of 0", { lifetime: 0 }],
    ["names of a batch that grow too long", { name: "a".repeat(40), count: 2 }],
  ])("is refused with %s, and nothing is left of it", async (_what, request) => {
    const server = await startTestServer();
    const reply = await server.post("/v1/machines", request);
    expect([reply.status, reply.json.error?.code]).toEqual([400, "invalid_request"]);
    expect(await names(server)).toEqual([]);
    expect(server.worker.machines.created).toEqual([]);
  });

  test("needs nothing, and the reply has every figure", async () => {
    const server = await startTestServer();
    const reply = await server.post("/v1/machines", {});
    expect(reply.status).toBe(201);
    expect(reply.json).toMatchObject({
      id: expect.stringMatching(/^m[0-9a-z]{20}$/),
      name: expect.stringMatching(/^machine-[0-9a-z]{6}$/),
      ...{ state: "running", image: "host", driver: "namespace", network: "open", egress: null, labels: {} },
      ...{ lifetime: null, expires_at: null, lease: null, disk_saved_at: null, disk_save_interval: 300, urls: {} },
    });
  });

  test("tells of its progress, and last the machine", async () => {
    const server = await startTestServer();
    const body = JSON.stringify({ name: "box" });
    const reply = await server.send({ method: "POST", path: "/v1/machines", body, headers: NDJSON });
    const events = reply.bytes
      .toString()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events[0]).toEqual({ event: "accepted", id: expect.stringMatching(/^op_/) });
    expect(events[1]).toEqual({ event: "progress", phase: "start", done: 0, total: 1 });
    expect(events.at(-1)).toMatchObject({ event: "machine", machine: { name: "box", state: "running" } });
  });

  test("of an image that is not there, or of a driver this host lacks, says so", async () => {
    const server = await startTestServer();
    expect((await server.post("/v1/machines", { image: "none" })).json.error?.code).toBe("image_not_found");
    const driver = await server.post("/v1/machines", { driver: "gvisor" });
    expect([driver.status, driver.json.error?.code]).toEqual([409, "driver_unavailable"]);
    expect(await names(server)).toEqual([]);
  });

  test("row 30: that fails leaves its name free", async () => {
    const server = await startTestServer();
    const failed = await server.post("/v1/machines", { name: "box", environment: { TEST: "fail" } });
    expect([failed.status, failed.json.error?.code]).toEqual([409, "driver_unavailable"]);
    expect(await names(server)).toEqual([]);
    expect((await server.post("/v1/machines", { name: "box" })).status).toBe(201);
    const taken = await server.post("/v1/machines", { name: "box" });
    expect([taken.status, taken.json.error?.code]).toEqual([409, "name_taken"]);
    expect(await names(server)).toEqual(["box"]);
  });

  test.each([
    ["plain", {}],
    ["streamed", NDJSON],
  ])("row 36: %s without a key is rolled back when its caller goes away", async (_form, headers) => {
    const server = await startTestServer();
    const gone = new AbortController();
    const body = JSON.stringify({ name: "box", environment: { TEST: "wait" } });
    const caller = fetch(`${server.running.url}/v1/machines`, {
      ...{ method: "POST", body, signal: gone.signal },
      headers: { authorization: `Bearer ${server.running.key}`, "content-type": "application/json", ...headers },
    }).then((reply) => reply.text());
    await until(() => server.worker.machines.created.length === 1);
    gone.abort();
    await expect(caller).rejects.toThrow();
    await until(async () => (await names(server)).length === 0);
    expect(server.worker.machines.held.size).toBe(0);
    await until(() => server.logLines.some((line) => line.includes('"error_code":"creation_aborted"')));
  });

  test("is rolled back when the server stops, and its caller hears so", async () => {
    const server = await startTestServer();
    const waiting = server.post("/v1/machines", { environment: { TEST: "wait" } });
    await until(() => server.worker.machines.created.length === 1);
    await server.running.close();
    expect([(await waiting).status, (await waiting).json.error?.code]).toEqual([503, "server_closing"]);
    expect(server.worker.machines.held.size).toBe(0);
  });
});

describe("several at once", () => {
  test("are told apart, each with its own fate", async () => {
    const server = await startTestServer({ limits: { machinesPerOwner: 3 } });
    await server.post("/v1/machines", { name: "box-2" });
    const { json, status } = await server.post("/v1/machines", { name: "box", count: 4 });
    const fates = json.machines as { machine?: { name: string }; error?: { code: string } }[];
    expect(status).toBe(201);
    expect(fates.map((fate) => fate.machine?.name ?? fate.error?.code)).toEqual([
      "box-1",
      "name_taken",
      "box-3",
      "quota",
    ]);
  });

  test("with a key are those that were made, and what failed is tried again", async () => {
    const server = await startTestServer({ limits: { machinesPerOwner: 2 } });
    const request = { name: "box", count: 3 };
    const key = { "idempotency-key": "k1" };
    const idsOf = (reply: { json: Record<string, unknown> }) =>
      (reply.json.machines as { machine?: { id: string } }[]).map(({ machine }) => machine?.id ?? null);
    const first = idsOf(await server.post("/v1/machines", request, key));
    expect(first.map((id) => id === null)).toEqual([false, false, true]);
    expect(idsOf(await server.post("/v1/machines", request, key))).toEqual(first);
    const other = await server.post("/v1/machines", { name: "box" }, key);
    expect(other.json.error?.code).toBe("conflict");
  });
});

test("row 27: the quota is shown, and refuses with the count", async () => {
  const server = await startTestServer({ limits: { machinesPerOwner: 1 } });
  await server.post("/v1/machines", {});
  expect((await server.send({ path: "/v1/machines" })).json.quota).toEqual({ used: 1, limit: 1 });
  const refused = await server.post("/v1/machines", {});
  expect([refused.status, refused.json.error?.code]).toEqual([429, "quota"]);
  expect(refused.json.error?.details).toEqual({ used: 1, limit: 1 });
  const other = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
  const theirs = await server.send({ method: "POST", path: "/v1/machines", body: "{}", key: other });
  expect(theirs.status).toBe(201);
});

test("row 29: past the queue a create is refused with Retry-After, and those before it are not", async () => {
  const server = await startTestServer({ limits: { machineStartsAtOnce: 1, machineQueue: 1 } });
  const wait = { environment: { TEST: "wait" } };
  const held = [
    server.post("/v1/machines", { ...wait, name: "a" }),
    server.post("/v1/machines", { ...wait, name: "b" }),
  ];
  await until(async () => (await names(server)).length === 2);
  const refused = await server.post("/v1/machines", { name: "c" });
  expect([refused.status, refused.json.error?.code]).toEqual([429, "quota"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect(await names(server)).toEqual(["a", "b"]);
  for (const name of ["b", "a"]) await server.send({ method: "DELETE", path: `/v1/machines/${name}` });
  expect((await Promise.all(held)).map(({ json }) => json.error?.code)).toEqual(["machine_lost", "machine_lost"]);
  expect((await server.post("/v1/machines", { name: "c" })).status).toBe(201);
});

test.each([
  ["disk_full", { diskLowWaterBytes: 2 ** 60 }],
  ["memory_short", { memoryLowWaterBytes: 2 ** 60 }],
])("a host below its low water refuses new work with %s and the figure", async (code, limits) => {
  const server = await startTestServer({ limits });
  const refused = await server.post("/v1/machines", {});
  expect([refused.status, refused.json.error?.code]).toEqual([507, code]);
  expect(refused.json.error?.details.low_water_bytes).toBe(2 ** 60);
  expect(await names(server)).toEqual([]);
});

describe("row 36: an Idempotency-Key", () => {
  const key = { "idempotency-key": "b3f1" };

  test("makes one machine of many requests, at the same moment and later", async () => {
    const server = await startTestServer();
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => server.post("/v1/machines", { name: "box" }, key)),
    );
    replies.push(await server.post("/v1/machines", { name: "box" }, key));
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 201));
    expect(new Set(replies.map(({ json }) => json.id)).size).toBe(1);
    const other = await server.post("/v1/machines", { name: "other" }, key);
    expect(other.json.error?.code).toBe("conflict");
  });

  test("of a machine that was deleted does not make it anew", async () => {
    const server = await startTestServer();
    await server.post("/v1/machines", { name: "box" }, key);
    await server.send({ method: "DELETE", path: "/v1/machines/box" });
    expect((await server.post("/v1/machines", { name: "box" }, key)).json.error?.code).toBe("machine_lost");
  });

  test("that was deleted before its create came makes nothing", async () => {
    const server = await startTestServer();
    const deleted = await server.send({ method: "DELETE", path: "/v1/machines/box", headers: key });
    expect([deleted.status, deleted.json.deleted]).toEqual([200, true]);
    const late = await server.post("/v1/machines", { name: "box" }, key);
    expect([late.status, late.json.error?.code]).toEqual([410, "machine_lost"]);
    expect(await names(server)).toEqual([]);
  });

  test("of a failed create may be tried again", async () => {
    const server = await startTestServer();
    const request = { environment: { TEST: "fail" } };
    expect((await server.post("/v1/machines", request, key)).status).toBe(409);
    expect((await server.post("/v1/machines", request, key)).status).toBe(409);
    expect(server.worker.machines.created).toHaveLength(2);
  });
});
