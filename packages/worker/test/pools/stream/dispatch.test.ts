import { afterEach, beforeEach, expect, test } from "vitest";
import { jsonActions, openTestPools, parseJson, until } from "../../fixtures/pool.ts";
import { ScriptedDriver } from "../../fixtures/scripted-driver.ts";
import { ScriptedStream, type Sent } from "../../fixtures/scripted-stream.ts";
import { nothingOut, StreamClient } from "../../fixtures/stream-client.ts";

let driver: ScriptedDriver;
let agents: ScriptedStream;
let pools: Awaited<ReturnType<typeof openTestPools>>;

beforeEach(async () => {
  driver = new ScriptedDriver();
  agents = new ScriptedStream();
  driver.script = agents.script;
  pools = await openTestPools(driver);
});

afterEach(async () => {
  await pools.close();
  expect(driver.alive).toEqual([]);
});

async function sent(place: number): Promise<Sent> {
  await until(() => agents.sent.length > place);
  return agents.sent[place] as Sent;
}

test("a step goes to each shard that has one of its rows, in index order and byte for byte", async () => {
  const pool = await pools.create({ n: 5, shards: 2 });
  const client = new StreamClient(pool).open();
  client.step([4, 0, 1], [44, 10, 11]);
  const [a, b] = [await sent(0), await sent(1)];
  expect(a.head).toEqual({
    op: "send",
    kind: "step",
    encoding: "json",
    rows: [0, 1],
    offset: 0,
    total: 3,
    actions: { kind: "json" },
  });
  expect(a.body).toBe('{"number":1,"op":"step","where":[4,0,1],"actions":[10,11,44],"received":0}');
  expect(b.head).toMatchObject({ rows: [4], offset: 2, total: 3 });
  expect([a.actions, b.actions]).toEqual([[10, 11], [44]]);
});

test("an array of actions is cut by shard, each row's where it belongs", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  new StreamClient(pool, "binary", "binary").open().stepArray([3, 2, 1], [33, 22, 11]);
  const [a, b] = [await sent(0), await sent(1)];
  expect([a.rows, a.actions, b.rows, b.actions]).toEqual([[1], [11], [2, 3], [22, 33]]);
  expect(b.head).toMatchObject({ encoding: "binary", rows: null, actions: { kind: "array", dtype: "<i8", shape: [] } });
});

test("a reset carries seeds and options to their rows", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  const client = new StreamClient(pool).open();
  client.reset([3, 0], { seed: [30, null], options: [{ level: 3 }, { level: 0 }], hard: true });
  const [a, b] = [await sent(0), await sent(1)];
  expect(a.head).toMatchObject({ kind: "reset", rows: [0], seeds: [null], hard: true, offset: 0, total: 2 });
  expect(b.head).toMatchObject({ rows: [3], seeds: [30], offset: 1, total: 2 });
  expect(JSON.parse(b.body).options).toEqual([{ level: 0 }, { level: 3 }]);
  expect(a.head).not.toHaveProperty("seed");
});

test("seeds and options stay with their rows where all rows are named in another order", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  const client = new StreamClient(pool).open();
  client.reset([3, 0, 2, 1], {
    seed: [30, 0, 20, 10],
    options: [{ level: 3 }, { level: 0 }, { level: 2 }, { level: 1 }],
  });
  const [a, b] = [await sent(0), await sent(1)];
  expect([a.head.seeds, b.head.seeds]).toEqual([
    [0, 10],
    [20, 30],
  ]);
  expect(JSON.parse(a.body)).toMatchObject({ options: [{ level: 0 }, { level: 1 }, { level: 2 }, { level: 3 }] });
});

test("a whole number as the seed gives row i the seed s + i, and becomes the pool's where all rows are reset", async () => {
  const pool = await pools.create({ n: 4, shards: 2, seed: 5 });
  const client = new StreamClient(pool).open();
  client.reset([2], { seed: 40 });
  expect((await sent(0)).head).toMatchObject({ seeds: [42] });
  agents.finish(await sent(0), [2]);
  await until(() => client.results.length === 1);
  expect(pool.describe().seed).toBe(5);
  client.reset([3, 2, 1, 0], { seed: 70 });
  expect((await sent(1)).head).toMatchObject({ seeds: [70, 71], seed: 70, rows: null });
  expect((await sent(2)).head).toMatchObject({ seeds: [72, 73], seed: 70, rows: null });
  expect(pool.describe().seed).toBe(70);
});

test("a fault of our own uses the number up, says so and goes up to the log", async () => {
  const pool = await pools.create({ n: 1 });
  const client = new StreamClient(pool).open();
  const where = [0];
  const rawBody = Buffer.from("{}");
  const broken = { number: 1, received: 0, where, rawBody, op: "step" as const, actions: undefined as never };
  expect(() => client.connection.take(broken)).toThrow(TypeError);
  expect(client.inbox.at(-1)).toMatchObject({ event: "refused", number: 1, error: { code: "internal" } });
  client.number = 1;
  client.step([0], [1]);
  await sent(0);
});

test("a batch while rows are out is pool_busy and says how many; with nothing out both take turns", async () => {
  const pool = await pools.create({ n: 3, shards: 1 });
  const client = new StreamClient(pool).open();
  client.step([0, 2], [1, 1]);
  const refused = { code: "pool_busy", details: { out: 2, received: 1 } };
  await expect(pool.step(jsonActions(1, [1, 1, 1]), "json")).rejects.toMatchObject(refused);
  await expect(pool.reset({ seq: 1 }, Buffer.from("{}"), "json")).rejects.toMatchObject(refused);
  await expect(pool.call({ seq: 1, name: "render" }, Buffer.from("{}"), "json")).rejects.toMatchObject(refused);
  expect(parseJson(await pool.observations("json")).obs).toHaveLength(3);
  agents.finish(await sent(0), [0, 2]);
  await until(() => client.results.length === 1);
  expect(parseJson(await pool.step(jsonActions(1, [1, 2, 3]), "json")).rewards).toEqual([1, 2, 3]);
  client.step([1], [1]);
  await sent(1);
});

test("a message while a batch runs is pool_busy", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  driver.script = (head, body, agent) => (head.op === "step" ? null : agents.script(head, body, agent));
  const client = new StreamClient(pool).open();
  const running = pool.step(jsonActions(1, [1, 2]), "json");
  client.step([0], [1]);
  expect(client.inbox.at(-1)).toMatchObject({
    event: "refused",
    number: 1,
    error: { code: "pool_busy", details: { running: 1 } },
  });
  await Promise.all([expect(running).rejects.toMatchObject({ code: "pool_closed" }), pool.close()]);
});

test("what every agent refuses is refused as a whole, and its rows are free", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  const client = new StreamClient(pool).open();
  agents.answer = () => ({ ok: false, error: { code: "invalid_request", message: "no such action" } });
  client.step([0, 3], [1, 1]);
  await until(() => client.inbox.length === 2);
  expect(client.inbox[1]).toMatchObject({
    event: "refused",
    number: 1,
    error: { code: "invalid_request", message: "no such action" },
  });
  agents.answer = () => ({ ok: true });
  client.step([0, 3], [1, 1]);
  agents.finish(await sent(2), [0]);
  await until(() => client.results.length === 1);
});

test.each(["the other first", "it first"])(
  "where one agent refuses and another does not, %s, the refused rows fail",
  async (order) => {
    const pool = await pools.create({ n: 4, shards: 2 });
    const client = new StreamClient(pool).open();
    const refusing = order === "it first" ? 0 : 2;
    agents.answer = ({ agent }) =>
      agent.first === refusing ? { ok: false, error: { code: "invalid_request", message: "not this" } } : { ok: true };
    client.step([0, 3], [1, 1]);
    await until(() => client.results.length === 1);
    expect(client.results[0]).toMatchObject({
      where: [refusing === 0 ? 0 : 3],
      obs: [null],
      truncated: [true],
      failed: [refusing === 0 ? 0 : 3],
      infos: [{ sandpool_error: { kind: "protocol", op: "step", message: expect.stringContaining("not this") } }],
    });
  },
);

test.each([
  ["rows that are not out", { rows: [1] }],
  ["no rows", { rows: [] }],
  ["rows out of order", { rows: [2, 0] }],
  ["no list of rows", { rows: "0" }],
  ["the other encoding", { encoding: "binary" }],
  ["columns of another length", { columns: [{ name: "obs", length: 1 }] }],
])("results with %s end the sandbox, and its rows come back as failed", async (_, wrong) => {
  const pool = await pools.create({ n: 3, shards: 1 });
  const client = new StreamClient(pool).open();
  client.step([0, 2], [1, 1]);
  const { agent } = await sent(0);
  agent.event({ event: "results", encoding: "json", rows: [0], columns: [], ...wrong });
  await until(() => client.results.length === 1);
  expect(client.results[0]).toMatchObject({ where: [0, 2], failed: [0, 2], truncated: [true, true] });
  expect(client.results[0]?.infos?.[0]).toMatchObject({
    sandpool_error: { kind: "crash", message: expect.stringMatching(/agent/i) },
  });
});

test("results keep the lease alive, and so do rows that are out", async () => {
  const pool = await pools.create({ n: 1, lease: 0.3 });
  const client = new StreamClient(pool).open();
  for (let round = 0; round < 3; round += 1) {
    client.step([0], [1]);
    const out = await sent(round);
    const later = Date.now() + 350;
    await until(() => Date.now() > later);
    agents.finish(out, [0]);
    await until(() => client.results.length === round + 1);
  }
  await until(() => client.ended !== null);
  expect(client.ended).toMatchObject({ code: "pool_closed", details: { reason: "lease" } });
});

test.each([
  ["deleted", () => undefined],
  ["server_stopped", () => pools.registry.closeAll()],
])("the end of the pool ends the session: %s", async (reason, stop) => {
  const pool = await pools.create({ n: 2, shards: 1 });
  const client = new StreamClient(pool).open();
  client.step([0], [1]);
  await sent(0);
  await (stop() ?? pool.close());
  expect(client.ended).toMatchObject({ code: "pool_closed", details: { reason } });
  expect(client.results).toEqual([]);
  client.step([1], [1]);
  expect(() => client.open()).toThrow(/is closed/);
});

test("a client without a connection costs the pool nothing, and batches go on", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  const client = new StreamClient(pool).open();
  client.step([0, 1], [1, 2]);
  client.detach();
  agents.finish(await sent(0), [0, 1]);
  await nothingOut(pool);
  expect(parseJson(await pool.reset({ seq: 2 }, Buffer.from("{}"), "json")).obs).toHaveLength(2);
});
