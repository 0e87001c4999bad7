import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { jsonActions, openTestPools, parseJson, until } from "../../fixtures/pool.ts";
import { ScriptedDriver } from "../../fixtures/scripted-driver.ts";
import { ScriptedStream, type Sent } from "../../fixtures/scripted-stream.ts";
import { StreamClient } from "../../fixtures/stream-client.ts";

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

/** Waits until the sandbox that replaces a dead one runs and knows the pool's layout. */
async function restarted(generation: number): Promise<void> {
  await until(() => driver.agents[generation]?.requests.some(({ head }) => head.op === "layout") === true);
}

test("rows that a sandbox has when it dies fail with it, once, and the others go on", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  const client = new StreamClient(pool).open();
  client.step([0, 2], [1, 1]);
  client.reset([3]);
  const other = await sent(0);
  await sent(2);
  driver.agents[1]?.die({ code: 3, signal: null });
  await until(() => client.results.length === 2);
  const error = { kind: "crash", exit_code: 3, stderr_tail: "scripted stderr" };
  expect(client.results).toMatchObject([
    {
      where: [2],
      ops: ["step"],
      failed: [2],
      truncated: [true],
      infos: [{ sandpool_error: { ...error, op: "step" } }],
    },
    {
      where: [3],
      ops: ["reset"],
      failed: [3],
      truncated: [false],
      infos: [{ sandpool_error: { ...error, op: "reset" } }],
    },
  ]);
  expect(client.results[0]).toMatchObject({ obs: [null], rewards: [0], terminated: [false] });
  expect(client.results[0]?.infos?.[0]?.sandpool_error).not.toHaveProperty("repeated");
  agents.finish(other, [0]);
  await until(() => client.results.length === 3);
  expect(client.results[2]).toMatchObject({ where: [0], failed: [] });
});

test("a sandbox that dies before it answers a message fails its rows too", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  const client = new StreamClient(pool).open();
  agents.answer = ({ agent }) => {
    agent.die({ code: null, signal: "SIGKILL" });
    return null;
  };
  client.step([0, 1], [1, 1]);
  await until(() => client.results.length === 1);
  expect(client.results[0]).toMatchObject({ where: [0, 1], failed: [0, 1] });
  expect(client.results[0]?.infos?.[0]).toMatchObject({ sandpool_error: { kind: "crash", signal: "SIGKILL" } });
});

test("a sandbox that one session used fails the rows of the next", async () => {
  const pool = await pools.create({ n: 1 });
  const first = new StreamClient(pool, "first").open();
  first.step([0], [1]);
  agents.finish(await sent(0), [0]);
  await until(() => first.results.length === 1);
  first.detach();
  const second = new StreamClient(pool, "second").open();
  second.step([0], [1]);
  driver.agents[0]?.die({ code: 4, signal: null });
  await until(() => second.results.length === 1);
  expect(second.results[0]).toMatchObject({ number: 1, failed: [0], infos: [{ sandpool_error: { exit_code: 4 } }] });
  expect(first.results).toHaveLength(1);
});

test("a row of a dead sandbox holds its error until it is reset, which waits for the restart and holds nobody", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  const client = new StreamClient(pool).open();
  const start = Promise.withResolvers<void>();
  const scripted = driver.start.bind(driver);
  driver.start = async (spec, signal) => {
    await start.promise;
    return scripted(spec, signal);
  };
  client.step([2], [1]);
  await sent(0);
  driver.agents[1]?.die({ code: 1, signal: null });
  await until(() => client.results.length === 1);
  client.step([2], [1]);
  await until(() => client.results.length === 2);
  expect(client.results[1]?.infos?.[0]).toMatchObject({ sandpool_error: { kind: "crash", repeated: true } });
  client.reset([2]);
  client.step([0], [5]);
  agents.finish(await sent(1), [0]);
  await until(() => client.results.length === 3);
  start.resolve();
  await restarted(2);
  const reset = await sent(2);
  expect(reset).toMatchObject({ kind: "reset", rows: [2] });
  agents.finish(reset, [2]);
  await until(() => client.results.length === 4);
  client.step([2, 3], [6, 7]);
  await until(() => client.results.length === 5);
  expect(client.results[4]).toMatchObject({ where: [3], failed: [3] });
  const ready = await sent(3);
  expect([ready.rows, ready.actions]).toEqual([[2], [6]]);
  agents.finish(ready, [2]);
  await until(() => client.results.length === 6);
  expect(client.results[5]).toMatchObject({ where: [2], rewards: [6], failed: [] });
});

test("in an autoreset mode the step after the one that told of the death is the pending reset", async () => {
  const pool = await pools.create({ n: 2, shards: 1, autoreset: "next_step" });
  const client = new StreamClient(pool).open();
  driver.agents[0]?.die({ code: 1, signal: null });
  await restarted(1);
  client.step([0], [1]);
  await until(() => client.results.length === 1);
  expect(client.results[0]).toMatchObject({ ops: ["step"], failed: [0], truncated: [true] });
  client.step([0, 1], [1, 1]);
  await until(() => client.results.length === 2);
  expect(client.results[1]).toMatchObject({ where: [1], failed: [1] });
  const pending = await sent(0);
  expect(pending.head).toMatchObject({ kind: "reset", rows: [0], seeds: null, offset: 0, total: 1 });
  agents.finish(pending, [0]);
  await until(() => client.results.length === 3);
  expect(client.results[2]).toMatchObject({ where: [0], ops: ["step"], rewards: [0], failed: [] });
  client.step([0], [8]);
  expect(await sent(1)).toMatchObject({ kind: "step", rows: [0], actions: [8] });
});

test("a death that the stream told is not told again by a batch, nor the other way round", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  const client = new StreamClient(pool).open();
  driver.agents[0]?.die({ code: 1, signal: null });
  await restarted(1);
  client.step([0], [1]);
  await until(() => client.results.length === 1);
  const batch = parseJson(await pool.step(jsonActions(1, [1, 1]), "json"));
  expect(batch.infos[0]?.sandpool_error).toMatchObject({ repeated: true });
  expect(batch.infos[1]?.sandpool_error).not.toHaveProperty("repeated");
  client.step([1], [1]);
  await until(() => client.results.length === 2);
  expect(client.results[1]?.infos?.[0]?.sandpool_error).toMatchObject({ repeated: true });
});

test("a restarted shard has later episodes than any of its rows had on the stream", async () => {
  const pool = await pools.create({ n: 1, seed: 5 });
  const client = new StreamClient(pool).open();
  for (let round = 0; round < 3; round += 1) {
    client.reset([0]);
    agents.finish(await sent(round), [0]);
    await until(() => client.results.length === round + 1);
  }
  driver.agents[0]?.die({ code: 1, signal: null });
  await restarted(1);
  expect(driver.agents[1]?.requests[0]?.head).toMatchObject({ seed: 5, episode_offset: 4, first_reset: false });
});

test("a shard that cannot be started again is lost, and a hard reset on the stream tries once more", async () => {
  const pool = await pools.create({ n: 1 });
  const client = new StreamClient(pool).open();
  let refuse = true;
  driver.script = (head, body, agent) => {
    if (head.op !== "start" || !refuse) return agents.script(head, body, agent);
    return { head: { ok: false, error: { code: "environment_failed", message: "no luck" } } };
  };
  driver.agents[0]?.die({ code: 1, signal: null });
  await until(async () => (await pool.status({ memory: false })).rows[0]?.state === "lost");
  client.reset([0]);
  await until(() => client.results.length === 1);
  expect(client.results[0]?.infos?.[0]).toMatchObject({
    sandpool_error: { kind: "lost", op: "reset", message: expect.stringContaining("no luck") },
  });
  refuse = false;
  client.reset([0], { hard: true });
  agents.finish(await sent(0), [0]);
  await until(() => client.results.length === 2);
  expect(client.results[1]).toMatchObject({ ops: ["reset"], failed: [] });
});

test("an agent that never answers is given up long after the deadlines, and only its rows fail", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  try {
    const pool = await pools.create({ n: 2, shards: 2, step_timeout: 1 });
    const client = new StreamClient(pool).open();
    client.step([0, 1], [1, 1]);
    await until(() => agents.sent.length === 2);
    agents.finish(agents.sent[1] as Sent, [1]);
    await until(() => client.results.length === 1);
    vi.advanceTimersByTime(31_000);
    expect(client.results).toHaveLength(1);
    vi.advanceTimersByTime(3_000);
    await until(() => client.results.length === 2);
    expect(client.results[1]).toMatchObject({ where: [0], failed: [0] });
    expect(client.results[1]?.infos?.[0]).toMatchObject({
      sandpool_error: { kind: "lost", message: expect.stringContaining("did not answer") },
    });
  } finally {
    vi.useRealTimers();
  }
});
