import { afterEach, beforeEach, expect, test } from "vitest";
import { jsonActions, until } from "../../fixtures/pool.ts";
import type { ScriptedAgent } from "../../fixtures/scripted-driver.ts";
import { fork, openBranchingPools, raw, restore, save, step } from "./support.ts";

let opened: Awaited<ReturnType<typeof openBranchingPools>>;

beforeEach(async () => {
  opened = await openBranchingPools();
});

afterEach(async () => {
  await opened.pools.close();
  expect(opened.driver.alive).toEqual([]);
});

const refusal = (row: number) => {
  const sources = [{ row, blockers: [{ threads: 3, names: ["openblas"] }], text: "threads: 3 (openblas)" }];
  return { head: { ok: false, error: { code: "fork_unsupported", message: "no", details: { sources } } } };
};

const pairs: [number, number][] = [
  [0, 1],
  [2, 3],
];

const operations = (agent: number): unknown[] =>
  (opened.driver.agents[agent]?.requests ?? []).map(({ head }) => head.op).slice(2);

test("where one shard refuses, the others let go of what they hold; nothing has changed and the number is free", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head, agent) => (head.op === "branch" && agent.first === 2 ? refusal(2) : undefined);
  await expect(fork(pool, { seq: 1, pairs })).rejects.toMatchObject({
    code: "fork_unsupported",
    message: "row 2 cannot be copied: threads: 3 (openblas). Nothing was changed.",
    details: { sources: [{ row: 2, blockers: [{ threads: 3, names: ["openblas"] }], text: "threads: 3 (openblas)" }] },
  });
  expect([operations(0), operations(1)]).toEqual([["branch", "unsettle"], ["branch"]]);
  expect(pool.describe().next_seq).toBe(1);
  expect(await step(pool, 1, [1, 2, 3, 4])).toEqual([
    [0, 1],
    [1, 2],
    [2, 3],
    [3, 4],
  ]);
});

test("refusals of several shards name all their sources", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head, agent) => (head.op === "branch" ? refusal(agent.first) : undefined);
  await expect(fork(pool, { seq: 1, pairs })).rejects.toMatchObject({
    details: { sources: [{ row: 0 }, { row: 2 }] },
  });
});

test("no shard settles before every shard holds, and everybody else is told that the pool is busy", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head, agent) => (head.op === "branch" && agent.first === 2 ? null : undefined);
  const forked = fork(pool, { seq: 1, pairs });
  await until(() => operations(1).includes("branch") && operations(0).includes("branch"));
  await expect(pool.step(jsonActions(2, [1, 2, 3, 4]), "json")).rejects.toMatchObject({ code: "pool_busy" });
  const listed = pool.states({ memory: false });
  expect(operations(0)).toEqual(["branch"]);
  const open = opened.driver.agents[1]?.requests.at(-1);
  opened.agents.branches(opened.driver.agents[1] as ScriptedAgent).hold(open?.head ?? {});
  opened.driver.agents[1]?.answer(open?.sequence as number, { ok: true, way: ["fork"] });
  expect((await forked).obs).toEqual([
    [0, 0],
    [2, 0],
  ]);
  expect((await listed).states).toEqual([]);
});

test("a sandbox that ends while others make their copies refuses the whole; its rows tell it to the next batch", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head, agent) => {
    if (head.op !== "branch" || agent.first !== 2) return undefined;
    agent.die({ code: null, signal: "SIGKILL" });
    return null;
  };
  await expect(fork(pool, { seq: 1, pairs })).rejects.toMatchObject({
    code: "fork_unsupported",
    details: { sources: [{ row: 2, blockers: [{ failed: "crash" }], text: "failed: crash" }] },
  });
  expect(operations(0)).toEqual(["branch", "unsettle"]);
  expect(await step(pool, 1, [1, 1, 1, 1])).toEqual([[0, 1], [1, 1], null, null]);
});

test("a sandbox that ends between the phases fails its targets; the others have their copies", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  await step(pool, 1, [1, 2, 3, 4]);
  opened.agents.interpose = (head, agent) => {
    if (head.op !== "settle" || agent.first !== 2) return undefined;
    agent.die({ code: null, signal: "SIGKILL" });
    return null;
  };
  const reply = await fork(pool, { seq: 2, pairs });
  expect(reply).toMatchObject({ failed: [3], reseeded: [null, null] });
  expect(reply.obs).toEqual([[0, 1], null]);
  expect(reply.infos[1]).toMatchObject({ sandpool_error: { kind: "crash" } });
});

test("rows of a sandbox that was started again are no sources until they are reset", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.driver.agents[1]?.die({ code: 1, signal: null });
  await until(() => opened.driver.agents.length === 3 && operations(2).length === 0);
  const refused = { code: "fork_unsupported", details: { sources: [{ row: 2, blockers: [{ failed: "crash" }] }] } };
  await expect(fork(pool, { seq: 1, pairs: [[2, 3]] })).rejects.toMatchObject(refused);
  await expect(save(pool, 1, [2])).rejects.toMatchObject(refused);
});

test("a copy heals rows of a sandbox that was started again", async () => {
  const pool = await opened.pools.create({ n: 2, shards: 1 });
  opened.driver.agents[0]?.die({ code: 1, signal: null });
  await until(() => opened.driver.agents[1]?.requests.at(-1)?.head.op === "layout");
  const request = { seq: 1, where: [0] };
  await pool.reset(request, raw(request), "json");
  expect((await fork(pool, { seq: 2, pairs: [[0, 1]] })).failed).toEqual([]);
  expect(await step(pool, 3, [1, 2])).toEqual([
    [0, 1],
    [0, 2],
  ]);
});

test("an agent that answers the second phase with a fault fails the batch, and is asked to let go", async () => {
  const pool = await opened.pools.create({ n: 2 });
  opened.agents.interpose = (head) =>
    head.op === "settle" ? { head: { ok: false, error: { code: "agent_failed", message: "odd" } } } : undefined;
  const failed = { code: "agent_failed", message: "odd", details: { next_seq: 2 } };
  await expect(fork(pool, { seq: 1, pairs: [[0, 1]] })).rejects.toMatchObject(failed);
  await expect(fork(pool, { seq: 1, pairs: [[0, 1]] })).rejects.toMatchObject(failed);
  expect(operations(0)).toEqual(["branch", "settle", "unsettle"]);
  opened.agents.interpose = () => undefined;
  expect(await step(pool, 2, [1, 1])).toEqual([
    [0, 1],
    [1, 1],
  ]);
});

test("a save that one sandbox does not survive keeps nothing anywhere, and its number is free", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head, agent) => {
    if (head.op !== "settle" || agent.first !== 2) return undefined;
    agent.die({ code: null, signal: "SIGKILL" });
    return null;
  };
  await expect(save(pool, 1)).rejects.toMatchObject({
    code: "agent_failed",
    message: expect.stringMatching(/sandbox of rows 2 to 3 ended/),
    details: { next_seq: 1 },
  });
  expect((await pool.states({ memory: false })).states).toEqual([]);
  expect(opened.agents.branches(opened.driver.agents[0] as ScriptedAgent).slots.size).toBe(0);
  expect(pool.describe().next_seq).toBe(1);
  opened.agents.interpose = () => undefined;
  expect(await save(pool, 1, [0])).toMatchObject([{ row: 0 }]);
});

test("an agent that fails to make copies leaves the number free, and the failure says so", async () => {
  const pool = await opened.pools.create({ n: 2 });
  opened.agents.interpose = (head) =>
    head.op === "branch" ? { head: { ok: false, error: { code: "odd", message: "odd" } } } : undefined;
  const failed = { code: "agent_failed", details: { received_code: "odd", next_seq: 1 } };
  await expect(fork(pool, { seq: 1, pairs: [[0, 1]] })).rejects.toMatchObject(failed);
  await expect(save(pool, 1)).rejects.toMatchObject(failed);
  expect(await step(pool, 1, [1, 1])).toEqual([
    [0, 1],
    [1, 1],
  ]);
});

test("a pool that closes in the middle answers that it is closed", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head) => (head.op === "branch" ? null : undefined);
  const forked = fork(pool, { seq: 1, pairs });
  const outcome = expect(forked).rejects.toMatchObject({ code: "pool_closed" });
  await until(() => operations(1).includes("branch"));
  await pool.close();
  await outcome;
});

test("restore names the states that its agent could not copy", async () => {
  const pool = await opened.pools.create({ n: 2 });
  const [state] = await save(pool, 1, [1]);
  const details = { sources: [{ state: 0, blockers: [{ timers: 1 }], text: "timers: 1" }] };
  opened.agents.interpose = (head) =>
    head.op === "branch"
      ? { head: { ok: false, error: { code: "fork_unsupported", message: "no", details } } }
      : undefined;
  const refused = restore(pool, { seq: 2, pairs: [[state?.id as string, 0]] });
  await expect(refused).rejects.toMatchObject({
    details: { sources: [{ state: state?.id, blockers: [{ timers: 1 }], text: "timers: 1" }] },
  });
});
