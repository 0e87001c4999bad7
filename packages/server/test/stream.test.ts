import { getEventListeners } from "node:events";
import { encodeBatch } from "@sandpool/protocol";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer, until } from "./startTestServer.ts";
import { openStream, refusalOf, type StreamOpening, type TestSocket } from "./streamClient.ts";
import type { TestStream } from "./testStream.ts";

interface Setup {
  server: TestServer;
  id: string;
  stream: TestStream;
}

async function setUp(limits = {}): Promise<Setup> {
  const server = await startTestServer({ limits });
  const id = await server.createPool();
  const stream = server.worker.live.get(id)?.pool.stream as TestStream;
  return { server, id, stream };
}

function step(number: number, more = {}) {
  return { number, op: "step", where: [0, 2], actions: [1.5, 2], received: 0, ...more };
}

async function arrived(client: TestSocket, count: number): Promise<void> {
  await until(() => client.inbox.length >= count);
}

describe("an upgrade", () => {
  test.each([
    ["without a key", { key: null }, 401, "unauthorized"],
    ["with a wrong key", { key: "sp_wrong" }, 401, "unauthorized"],
    ["with a foreign Host", { headers: { host: "evil.example" } }, 403, "host_not_allowed"],
    ["with a foreign Origin", { headers: { origin: "https://evil.example" } }, 403, "host_not_allowed"],
    ["without a session", { query: "" }, 400, "invalid_request"],
    ["with an empty session", { query: "session=" }, 400, "invalid_request"],
    ["with a session of 65 characters", { session: "s".repeat(65) }, 400, "invalid_request"],
    ["with two sessions", { query: "session=a&session=b" }, 400, "invalid_request"],
    ["with an unknown member", { query: "session=a&mode=b" }, 400, "invalid_request"],
    ["with __proto__", { query: "session=a&__proto__=b" }, 400, "invalid_request"],
    ["with a number that is none", { query: "session=a&received=-1" }, 400, "invalid_request"],
    ["with an unknown subprotocol", { protocol: ["graphql-ws"] }, 400, "invalid_request"],
  ] satisfies [string, StreamOpening, number, string][])(
    "%s is refused in the form of every refusal",
    async (...row) => {
      const [, opening, status, code] = row;
      const { server, id, stream } = await setUp();
      expect(await refusalOf(server, id, opening)).toMatchObject({ status, error: { code } });
      expect(stream.opened).toEqual([]);
    },
  );

  test("is made over the unix socket by the same rules", async () => {
    const { server, id } = await setUp();
    const reply = await server.send({ path: `/v1/pools/${id}` });
    const { socket: socketPath } = reply.json.endpoint as { socket: string };
    const client = openStream(server, id, { socketPath });
    await arrived(client, 1);
    client.send(step(1));
    await arrived(client, 2);
    expect(await refusalOf(server, id, { socketPath, key: "wrong" })).toMatchObject({ status: 401 });
    expect(await refusalOf(server, id, { socketPath, headers: { host: "evil.example" } })).toMatchObject({
      status: 403,
    });
  });

  test("of an address or to a protocol that is none of ours is answered as if nobody had asked", async () => {
    const { server, id } = await setUp();
    const upgrade = { connection: "upgrade", upgrade: "h2c" };
    expect((await server.send({ path: "/v1/health", headers: upgrade })).json.status).toBe("ok");
    const headers = { connection: "upgrade", upgrade: "websocket" };
    expect((await server.send({ path: `/v1/pools/${id}`, headers })).json.id).toBe(id);
    expect((await server.send({ path: `/v1/pools/${id}/stream?session=a`, headers: upgrade })).status).toBe(426);
  });

  test("that is no WebSocket's handshake is refused in the form of every refusal", async () => {
    const { server, id } = await setUp();
    const path = `/v1/pools/${id}/stream?session=a`;
    const upgrade = { connection: "upgrade", upgrade: "websocket" };
    const key = { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" };
    for (const headers of [upgrade, { ...upgrade, ...key, "sec-websocket-version": "99" }]) {
      const reply = await server.send({ path, headers });
      expect([reply.status, reply.json.error?.code]).toEqual([400, "invalid_request"]);
    }
  });

  test("that is missing answers 426", async () => {
    const { server, id } = await setUp();
    const reply = await server.send({ path: `/v1/pools/${id}/stream?session=a` });
    expect([reply.status, reply.json.error?.code]).toEqual([426, "upgrade_required"]);
  });

  test.each([
    [undefined, "", "json"],
    ["sandpool.json", "sandpool.json", "json"],
    [["unknown", "sandpool.batch", "sandpool.json"], "sandpool.batch", "binary"],
  ])("that offers %j speaks %j", async (protocol, chosen, encoding) => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id, { received: 7, session: "a%20b", ...(protocol ? { protocol } : {}) });
    await arrived(client, 1);
    expect(client.socket.protocol).toBe(chosen);
    expect(client.socket.extensions).toBe("");
    expect(stream.opened).toEqual([{ session: "a b", encoding, received: 7 }]);
  });
});

describe("a connection is told why and closed with", () => {
  test("4404 where the pool is unknown, also another owner's", async () => {
    const { server, id } = await setUp();
    const key = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
    for (const client of [openStream(server, "pool_0"), openStream(server, id, { key })]) {
      expect(await client.closed).toEqual({ code: 4404, reason: "pool_not_found" });
      expect(client.inbox).toMatchObject([{ event: "error", error: { code: "pool_not_found" } }]);
    }
  });

  test("4410 where it ended", async () => {
    const { server, id } = await setUp();
    await server.send({ method: "DELETE", path: `/v1/pools/${id}` });
    expect(await openStream(server, id).closed).toEqual({ code: 4410, reason: "pool_closed" });
  });

  test("4409 where another session has the stream", async () => {
    const { server, id } = await setUp();
    const client = openStream(server, id, { session: "taken" });
    expect(await client.closed).toEqual({ code: 4409, reason: "pool_busy" });
    expect(client.inbox).toMatchObject([{ event: "error", error: { code: "pool_busy" } }]);
  });

  test("4401 at its next message where its key was deleted", async () => {
    const { server, id, stream } = await setUp();
    const made = (await server.post("/v1/keys", { name: "short" })).json as { id: string; key: string };
    const client = openStream(server, id, { key: made.key });
    await arrived(client, 1);
    await server.send({ method: "DELETE", path: `/v1/keys/${made.id}` });
    client.send(step(1));
    expect(await client.closed).toEqual({ code: 4401, reason: "unauthorized" });
    expect(stream.taken).toEqual([]);
    expect(stream.detached).toBe(1);
  });

  test("1011 and an id for a fault of our own, which the log has", async () => {
    const { server, id } = await setUp();
    const client = openStream(server, id);
    client.socket.on("open", () => client.send(step(98)));
    expect(await client.closed).toEqual({ code: 1011, reason: "internal" });
    expect(JSON.stringify(client.inbox)).not.toContain("/secret");
    const logged = String(client.inbox.at(-1)?.error?.details.request_id);
    expect(server.logLines.join("")).toContain(logged);
  });

  test("1001 where the server stops, also one whose client no longer reads", async () => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id);
    await arrived(client, 1);
    const deaf = openStream(server, id, { session: "deaf" });
    await arrived(deaf, 1);
    deaf.socket.pause();
    await server.running.close();
    expect((await client.closed).code).toBe(1001);
    expect(stream.detached).toBe(2);
  });
});

describe("a message", () => {
  test("is taken as it came, with its free-form members byte for byte", async () => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id);
    await arrived(client, 1);
    const text = '{ "number":1, "op":"step","where":[2,0],"actions":[1.0,{"a":1e400}], "received":0}';
    client.socket.send(text);
    client.send({ number: 2, op: "reset", where: [1], seed: [5], options: [{ level: 1 }], hard: true, received: 1 });
    client.send({ number: 3, op: "reset", where: [1] });
    await arrived(client, 4);
    expect(stream.taken[0]?.rawBody.toString()).toBe(text);
    expect(stream.taken).toMatchObject([
      { number: 1, received: 0, where: [2, 0], op: "step", actions: { kind: "json", count: 2 } },
      { number: 2, received: 1, where: [1], op: "reset", seed: [5], options: [{ level: 1 }], hard: true },
      { number: 3, received: 0, where: [1], op: "reset", seed: null, options: undefined, hard: false },
    ]);
    expect(client.texts).toEqual([true, true, true, true]);
  });

  test("may be binary in sandpool.batch, and text there too", async () => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id, { protocol: "sandpool.batch" });
    await arrived(client, 1);
    const data = Buffer.from(new BigInt64Array([4n, 6n]).buffer);
    client.socket.send(binary({ number: 1, op: "step", where: [2, 0], received: 0 }, "<i8", [2], data));
    client.socket.send(
      Buffer.concat(encodeBatch({ number: 2, op: "reset", where: [1], seed: 3, options: null }, []).chunks),
    );
    client.send(step(3));
    await arrived(client, 4);
    expect(stream.taken).toMatchObject([
      { number: 1, op: "step", actions: { kind: "array", count: 2, dtype: "<i8", shape: [] } },
      { number: 2, op: "reset", where: [1], seed: 3, options: undefined, hard: false },
      { number: 3, op: "step", actions: { kind: "json", count: 2 } },
    ]);
    const [first] = stream.taken;
    expect(first?.op === "step" && first.actions.kind === "array" && first.actions.data.equals(data)).toBe(true);
  });

  test.each([
    ["an unknown member", step(1, { mode: 1 }), /mode/],
    ["__proto__", '{"number":1,"op":"step","where":[0],"actions":[1],"__proto__":{}}', /__proto__/],
    ["another operation", step(1, { op: "call" }), /op is "call", expected "step" or "reset"/],
    ["no operation", step(1, { op: undefined }), /op is missing/],
    ["a mask", step(1, { where: [true, false] }), /where/],
    ["no rows", step(1, { where: undefined }), /where/],
    ["null for the rows", step(1, { where: null }), /where/],
    ["a negative row", step(1, { where: [-1, 0] }), /where/],
    ["actions that are no list", step(1, { actions: { a: 1 } }), /actions/],
    ["a report that is none", step(1, { received: "1" }), /received/],
    ["seeds of a step", step(1, { seed: 1 }), /seed/],
    ["a negative seed", { number: 1, op: "reset", where: [0], seed: -1 }, /seed/],
    ["a seed that is text", { number: 1, op: "reset", where: [0], seed: "1" }, /seed/],
    ["actions of a reset", { number: 1, op: "reset", where: [0], actions: [1] }, /actions/],
    ["hard that is no boolean", { number: 1, op: "reset", where: [0], hard: 1 }, /hard/],
  ])("with %s is refused, and the session goes on", async (_, message, problem) => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id);
    await arrived(client, 1);
    client.socket.send(typeof message === "string" ? message : JSON.stringify(message));
    client.send(step(2));
    await arrived(client, 3);
    expect(client.inbox[1]).toMatchObject({
      event: "refused",
      number: 1,
      error: { code: "invalid_request", message: expect.stringMatching(problem) },
    });
    expect(stream.taken.map(({ number }) => number)).toEqual([2]);
  });

  test.each([
    ["no field", [], {}],
    ["another field", [{ name: "obs", dtype: "<i8", shape: [2], data: [Buffer.alloc(16)] }], {}],
    [
      "two fields",
      ["actions", "more"].map((name) => ({ name, dtype: "<i8", shape: [2], data: [Buffer.alloc(16)] })),
      {},
    ],
    ["a dtype that may not travel", [{ name: "actions", dtype: "|O8", shape: [2], data: [Buffer.alloc(16)] }], {}],
    ["too few bytes", [{ name: "actions", dtype: "<i8", shape: [2], data: [Buffer.alloc(8)] }], {}],
    ["an unknown member", [{ name: "actions", dtype: "<i8", shape: [2], data: [Buffer.alloc(16)] }], { mode: 1 }],
    ["a reset's field", [{ name: "actions", dtype: "<i8", shape: [2], data: [Buffer.alloc(16)] }], { op: "reset" }],
    ["a reset's options", [], { op: "reset", options: { level: 1 } }],
  ])("that is binary with %s is refused", async (_, fields, more) => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id, { protocol: "sandpool.batch" });
    await arrived(client, 1);
    client.socket.send(Buffer.concat(encodeBatch({ number: 1, op: "step", where: [0, 1], ...more }, fields).chunks));
    await arrived(client, 2);
    expect(client.inbox[1]).toMatchObject({ event: "refused", number: 1, error: { code: "invalid_request" } });
    expect(stream.taken).toEqual([]);
  });

  test("that is binary is refused in a stream of text", async () => {
    const { server, id } = await setUp();
    const client = openStream(server, id, { protocol: "sandpool.json" });
    await arrived(client, 1);
    client.socket.send(binary({ number: 1, op: "step", where: [0] }, "<i8", [1], Buffer.alloc(8)));
    await arrived(client, 2);
    expect(client.inbox[1]).toMatchObject({ event: "refused", number: 1, error: { code: "unsupported_media_type" } });
  });

  test.each([
    ["that is no JSON", "{"],
    ["that is empty", ""],
    ["that is a list", "[1]"],
    ["that is null", "null"],
    ["without a number", "{}"],
    ["numbered 0", JSON.stringify(step(0))],
    ["numbered with text", '{"number":"1","op":"step","where":[],"actions":[]}'],
    ["numbered beyond exact integers", '{"number":9007199254740993,"op":"step","where":[],"actions":[]}'],
    ["that is too deep", `{"number":1,"op":"step","where":[0],"actions":[${"[".repeat(70)}${"]".repeat(70)}]}`],
    ["out of order", JSON.stringify(step(99))],
    ["that is binary and no batch", Buffer.from([1, 2, 3])],
    ["that is binary without a number", Buffer.concat(encodeBatch({ op: "step" }, []).chunks)],
  ])("%s ends the connection, not the session", async (_, message) => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id, { protocol: "sandpool.batch" });
    await arrived(client, 1);
    client.socket.send(message);
    expect(await client.closed).toEqual({ code: 4400, reason: "invalid_request" });
    expect(client.inbox.at(-1)).toMatchObject({ event: "error", error: { code: "invalid_request" } });
    expect([stream.detached, stream.taken]).toEqual([1, []]);
    await arrived(openStream(server, id), 1);
  });

  test("that is not UTF-8 ends the connection with 1007, one over the limit with 1009", async () => {
    const { server, id, stream } = await setUp({ stepBodyBytes: 500 });
    const garbled = openStream(server, id);
    await arrived(garbled, 1);
    garbled.socket.send(Buffer.from([0x22, 0xff, 0x22]), { binary: false });
    expect((await garbled.closed).code).toBe(1007);
    const large = openStream(server, id);
    await arrived(large, 1);
    large.socket.send(JSON.stringify(step(1)).padEnd(500));
    await arrived(large, 2);
    large.socket.send(JSON.stringify(step(2)).padEnd(501));
    expect((await large.closed).code).toBe(1009);
    expect([stream.taken.length, stream.detached]).toEqual([1, 2]);
  });

  test("that follows the one which ended the connection is not taken", async () => {
    const { server, id, stream } = await setUp();
    const client = openStream(server, id);
    await arrived(client, 1);
    client.socket.send("{");
    client.send(step(1));
    await client.closed;
    expect(stream.taken).toEqual([]);
  });
});

describe("a client that does not read", () => {
  test("is not read from either until it does, and then loses nothing", async () => {
    const { server, id, stream } = await setUp({ streamUnsentBytes: 64 * 1024 });
    stream.answerBytes = 8 * 2 ** 20;
    const client = openStream(server, id);
    await arrived(client, 1);
    client.socket.pause();
    const messages = 20;
    // Longer than what a socket reads at once, so that each of them needs the socket to be read again.
    for (let number = 1; number <= messages; number += 1) {
      client.socket.send(JSON.stringify(step(number)).padEnd(256 * 1024));
    }
    await until(() => stream.taken.length > 0);
    for (let turn = 0; turn < 20; turn += 1) await server.send({ path: `/v1/pools/${id}` });
    expect(stream.taken.length).toBeLessThan(messages);
    client.socket.resume();
    await arrived(client, messages + 1);
    expect(client.inbox.slice(1).map(({ number }) => number)).toEqual(
      Array.from({ length: messages }, (_, at) => at + 1),
    );
  });
});

describe("after the end of connections", () => {
  test.each(["close", "terminate"] as const)("by the client's %s nothing of them is left", async (end) => {
    const { server, id, stream } = await setUp();
    const before = process.getActiveResourcesInfo().length;
    for (let count = 1; count <= 10; count += 1) {
      const client = openStream(server, id, { session: `s${count}` });
      await arrived(client, 1);
      client.send(step(1));
      await arrived(client, 2);
      client.socket[end]();
      await until(() => stream.detached === count);
    }
    await until(() => process.getActiveResourcesInfo().length <= before);
    expect(getEventListeners(process, "exit").length).toBeLessThan(10);
  });

  test("a server's stop is not held by one that never answers its closing", async () => {
    const { server, id } = await setUp();
    const client = openStream(server, id);
    await arrived(client, 1);
    client.socket.pause();
    await server.running.close();
    client.socket.resume();
    await client.closed;
  });
});

test("rows of the stream count in the metrics, kinds of failure only from the fixed set", async () => {
  const { server, id } = await setUp();
  const client = openStream(server, id);
  await arrived(client, 1);
  client.send(step(1));
  await arrived(client, 2);
  const metrics = (await server.send({ path: "/metrics" })).bytes.toString();
  expect(metrics).toContain('sandpool_rows_total{operation="step"} 4');
  expect(metrics).toContain('sandpool_failures_total{kind="timeout"} 2');
  expect(metrics).not.toContain("from_a_sandbox");
});

function binary(map: object, dtype: string, shape: number[], data: Buffer): Buffer {
  return Buffer.concat(encodeBatch({ ...map }, [{ name: "actions", dtype, shape, data: [data] }]).chunks);
}
