import { afterEach, beforeEach, expect, test } from "vitest";
import type { Pool } from "../../../src/index.ts";
import { openTestPools, until } from "../../fixtures/pool.ts";
import { ScriptedDriver } from "../../fixtures/scripted-driver.ts";
import { ScriptedStream, type Sent } from "../../fixtures/scripted-stream.ts";
import { nothingOut, StreamClient } from "../../fixtures/stream-client.ts";

let driver: ScriptedDriver;
let agents: ScriptedStream;
let pools: Awaited<ReturnType<typeof openTestPools>>;
let pool: Pool;

beforeEach(async () => {
  driver = new ScriptedDriver();
  agents = new ScriptedStream();
  driver.script = agents.script;
  pools = await openTestPools(driver);
  pool = await pools.create({ n: 4, shards: 2 });
});

afterEach(async () => {
  await pools.close();
  expect(driver.alive).toEqual([]);
});

/** The message number `place`, once its agent has it. */
async function sent(place: number): Promise<Sent> {
  await until(() => agents.sent.length > place);
  return agents.sent[place] as Sent;
}

test("a connection begins with the numbers of both sides", async () => {
  const client = new StreamClient(pool).open();
  expect(client.inbox).toEqual([{ event: "open", accepted: 0, next_result: 1 }]);
  client.step([1], [5]);
  agents.finish(await sent(0), [1]);
  await until(() => client.results.length === 1);
  client.detach();
  client.open();
  expect(client.inbox.at(-1)).toEqual({ event: "open", accepted: 1, next_result: 2 });
});

test("results come in the order in which rows finish, with their rows, operations and numbers", async () => {
  const client = new StreamClient(pool).open();
  client.step([0, 1], [10, 11]);
  client.reset([3]);
  const [steps, reset] = [await sent(0), await sent(1)];
  agents.finish(steps, [1]);
  await until(() => client.results.length === 1);
  agents.finish(reset, [3]);
  await until(() => client.results.length === 2);
  agents.finish(steps, [0]);
  await until(() => client.results.length === 3);
  const flags = { terminated: [false], truncated: [false], infos: [{}], failed: [] };
  expect(client.results).toMatchObject([
    { number: 1, where: [1], ops: ["step"], obs: [[1, 1]], rewards: [11], ...flags },
    { number: 2, where: [3], ops: ["reset"], obs: [[3, 0]], rewards: [0], ...flags },
    { number: 3, where: [0], ops: ["step"], obs: [[0, 1]], rewards: [10], ...flags },
  ]);
  expect(client.results[0]?.timing).toEqual({
    worker_ms: expect.any(Number),
    slowest_ms: 0.007,
    slowest_row: 1,
    stragglers: [],
  });
});

test("a binary session gets the same as one buffer a column", async () => {
  const client = new StreamClient(pool, "binary", "binary").open();
  client.stepArray([3, 1, 0], [30, 10, 0]);
  agents.finish(await sent(0), [0, 1]);
  await until(() => client.results.length === 1);
  expect(client.results[0]).toMatchObject({
    number: 1,
    where: [0, 1],
    ops: ["step", "step"],
    rows: 2,
    obs: [0, 1, 1, 1],
    rewards: [0, 10],
    terminated: [false, false],
    infos: {},
    failed: [],
  });
  expect(client.raw.map(({ isText }) => isText)).toEqual([true, false]);
});

test("a number that was taken before is ignored, and one beyond the next is an error of the connection", async () => {
  const client = new StreamClient(pool).open();
  client.step([0], [1]);
  client.step([1], [1], 1);
  expect(() => client.step([1], [1], 3)).toThrow(/received 3; 2 is the next one/);
  client.step([1], [1], 2);
  await sent(1);
  expect(agents.sent.map(({ rows }) => rows)).toEqual([[0], [1]]);
});

test("what the client does not have is sent again on the next connection, and what it reported never again", async () => {
  const client = new StreamClient(pool).open();
  client.step([0, 1], [1, 2]);
  client.step([2, 3], [3, 4]);
  client.detach();
  const [first, second] = [await sent(0), await sent(1)];
  agents.finish(first, [1]);
  agents.finish(second, [2, 3]);
  agents.finish(first, [0]);
  await nothingOut(pool);
  client.open();
  const numbers = client.results.map(({ number }) => number);
  expect(numbers).toEqual([1, 2, 3]);
  client.received = 1;
  client.open();
  expect(client.results.slice(3).map(({ number }) => number)).toEqual([2, 3]);
  client.step([1], [9]);
  client.open();
  expect(client.inbox.at(-1)).toEqual({ event: "open", accepted: 3, next_result: 4 });
});

test("a refused message uses up its number, and its refusal keeps its place between the results", async () => {
  const client = new StreamClient(pool).open();
  client.step([0], [1]);
  agents.finish(await sent(0), [0]);
  await until(() => client.results.length === 1);
  client.received = 0;
  client.step([9], [1]);
  client.step([1], [1]);
  agents.finish(await sent(1), [1]);
  await until(() => client.results.length === 2);
  const before = client.inbox.slice(1);
  expect(before.map(({ event, number }) => [event, number])).toEqual([
    [undefined, 1],
    ["refused", 2],
    [undefined, 2],
  ]);
  client.received = 0;
  client.open();
  expect(client.inbox.slice(5)).toEqual(before);
  client.received = 1;
  client.open();
  expect(client.inbox.slice(9)).toEqual(before.slice(1));
  client.received = 2;
  client.open();
  expect(client.inbox.slice(12)).toEqual([]);
});

test("no more refusals are kept than 1024, the newest", () => {
  const client = new StreamClient(pool).open();
  for (let count = 0; count < 1030; count += 1) client.step([9], [1]);
  client.open();
  const again = client.inbox.slice(1032);
  expect([again.length, again[0]?.number, again.at(-1)?.number]).toEqual([1024, 7, 1030]);
});

test.each([
  ["a row that does not exist", [4], [1], /the index 4; expected integers from 0 to 3/],
  ["a row twice", [1, 1], [1, 2], /the index 1 twice/],
  ["too few actions", [0, 1], [1], /received 1; 2 were expected/],
  ["a fraction for a row", [0.5], [1], /the index 0.5/],
])("%s refuses the whole message", (_, where, actions, message) => {
  const client = new StreamClient(pool).open();
  client.step(where, actions);
  expect(client.inbox.at(-1)).toMatchObject({
    event: "refused",
    number: 1,
    error: { code: "invalid_request", message: expect.stringMatching(message) },
  });
  expect(agents.sent).toEqual([]);
});

test("a row that is out refuses the message that wants it, and nothing of that is sent", async () => {
  const client = new StreamClient(pool).open();
  client.step([0, 2], [1, 1]);
  client.step([1, 2, 0], [1, 1, 1]);
  expect(client.inbox.at(-1)).toMatchObject({
    event: "refused",
    number: 2,
    error: { code: "pool_busy", details: { rows: [2, 0] } },
  });
  await sent(1);
  expect(agents.sent.map(({ rows }) => rows)).toEqual([[0], [2]]);
});

test("a row whose last result was not reported counts as out, so that at most one result a row is kept", async () => {
  const client = new StreamClient(pool).open();
  client.step([0], [1]);
  agents.finish(await sent(0), [0]);
  await until(() => client.results.length === 1);
  client.received = 0;
  client.step([0], [1]);
  expect(client.inbox.at(-1)).toMatchObject({ event: "refused", error: { code: "pool_busy", details: { rows: [0] } } });
  client.received = 1;
  client.step([0], [1]);
  await sent(1);
});

test("a report of a result that was never made refuses the message, and the session does not open with one", async () => {
  const client = new StreamClient(pool).open();
  client.received = 3;
  client.step([0], [1]);
  expect(client.inbox.at(-1)).toMatchObject({
    event: "refused",
    number: 1,
    error: { code: "invalid_request", details: { received: 3, last_result: 0 } },
  });
  client.detach();
  expect(() => client.open()).toThrow(/received: 3 was reported; the last result is 0/);
});

test("an empty message is taken and has no result", async () => {
  const client = new StreamClient(pool).open();
  client.step([], []);
  client.open();
  expect(client.inbox).toEqual([
    { event: "open", accepted: 0, next_result: 1 },
    { event: "open", accepted: 1, next_result: 1 },
  ]);
});

test("another session has to wait until the first has no connection and nothing out", async () => {
  const first = new StreamClient(pool, "first").open();
  const second = new StreamClient(pool, "second");
  expect(() => second.open()).toThrow(/Another session has this pool's stream/);
  first.step([0], [1]);
  first.detach();
  expect(() => second.open()).toThrow(/with 1 rows out/);
  agents.finish(await sent(0), [0]);
  await nothingOut(pool);
  second.open();
  expect(second.inbox).toEqual([{ event: "open", accepted: 0, next_result: 1 }]);
  second.step([0], [2]);
  await sent(1);
  second.detach();
  first.received = 1;
  agents.finish(await sent(1), [0]);
  await nothingOut(pool);
  expect(() => first.open()).toThrow(/not there any more/);
});

test("a second connection of a session takes the place of the first, which can do nothing any more", async () => {
  const client = new StreamClient(pool).open();
  const old = client.connection;
  const twin = new StreamClient(pool).open();
  expect(client.ended).toMatchObject({ code: "pool_busy" });
  old.detach();
  old.refuse(1, 0, client.ended as never);
  expect(twin.inbox).toEqual([{ event: "open", accepted: 0, next_result: 1 }]);
  twin.step([0], [1]);
  agents.finish(await sent(0), [0]);
  await until(() => twin.results.length === 1);
  expect(client.results).toEqual([]);
});

test("a session keeps the form of its results", () => {
  new StreamClient(pool).open().detach();
  expect(() => new StreamClient(pool, "client", "binary").open()).toThrow(/opened with the other subprotocol/);
});
