import { afterEach, beforeEach, expect, test } from "vitest";
import { parseJson, until } from "../../fixtures/pool.ts";
import type { ScriptedAgent } from "../../fixtures/scripted-driver.ts";
import { StreamClient } from "../../fixtures/stream-client.ts";
import { fork, openBranchingPools, raw, restore, save, step } from "./support.ts";

let opened: Awaited<ReturnType<typeof openBranchingPools>>;

beforeEach(async () => {
  opened = await openBranchingPools();
});

afterEach(async () => {
  await opened.pools.close();
});

test("a saved row is described, and restored any number of times onto any row of its sandbox", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  await step(pool, 1, [1, 2, 3, 4]);
  const states = await save(pool, 2, [3, 1]);
  expect(states).toMatchObject([
    { row: 1, episode: 2, step: 2, seed: null, way: "fork", pending: false, lost: null },
    { row: 3, step: 4 },
  ]);
  const [one, three] = states.map(({ id }) => id) as [string, string];
  expect(one).toMatch(/^st_[0-9a-z]{20}$/);
  await step(pool, 3, [9, 9, 9, 9]);
  const reply = await restore(pool, {
    seq: 4,
    pairs: [
      [three, 2],
      [one, 1],
      [one, 0],
    ],
  });
  expect(reply.obs).toEqual([
    [1, 2],
    [1, 2],
    [3, 4],
  ]);
  expect((await restore(pool, { seq: 5, pairs: [[one, 1]], reseed: 100 })).reseeded).toEqual([[]]);
  expect(await step(pool, 6, [1, 1, 1, 1])).toEqual([
    [1, 3],
    [1, 3],
    [3, 5],
    [3, 14],
  ]);
});

test("a save is repeated by its number and makes no second states", async () => {
  const pool = await opened.pools.create({ n: 2 });
  const request = { seq: 1, where: null };
  const first = await pool.save(request, raw(request));
  expect(await pool.save(request, raw(request))).toBe(first);
  expect((await pool.states({ memory: false })).states).toEqual(
    (parseJson(first) as unknown as { states: unknown[] }).states,
  );
  expect(opened.agents.branches(opened.driver.agents[0] as ScriptedAgent).slots.size).toBe(2);
});

test("states are listed in the order of their rows, whichever sandbox answered first", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  opened.agents.interpose = (head, agent) => (head.op === "settle" && agent.first === 0 ? null : undefined);
  const saved = save(pool, 1);
  const [first, second] = opened.driver.agents as [ScriptedAgent, ScriptedAgent];
  await until(() => [first, second].every(({ requests }) => requests.at(-1)?.head.op === "settle"));
  const { head, sequence } = first.requests.at(-1) as ScriptedAgent["requests"][number];
  first.answer(sequence, opened.agents.answer(head, Buffer.alloc(0), first)?.head ?? {});
  expect((await saved).map(({ row }) => row)).toEqual([0, 1, 2, 3]);
  expect((await pool.states({ memory: false })).states.map(({ row }) => row)).toEqual([0, 1, 2, 3]);
});

test("dropped states are gone; what is unknown is left out, and their slots are used again", async () => {
  const pool = await opened.pools.create({ n: 3 });
  const [a, b, c] = (await save(pool, 1)).map(({ id }) => id) as [string, string, string];
  expect(await pool.drop([b, "st_unknown", b])).toEqual([b]);
  await expect(restore(pool, { seq: 2, pairs: [[b, 0]] })).rejects.toMatchObject({
    code: "state_not_found",
    details: { states: [b] },
  });
  expect(pool.describe().next_seq).toBe(2);
  await save(pool, 2, [0]);
  expect([...opened.agents.branches(opened.driver.agents[0] as ScriptedAgent).slots.keys()].sort()).toEqual([0, 1, 2]);
  expect((await pool.drop(null)).slice(0, 2)).toEqual([a, c]);
  expect((await pool.states({ memory: false })).states).toEqual([]);
  expect(await pool.drop(null)).toEqual([]);
});

test("a state of another pool is no state", async () => {
  const [one, other] = [await opened.pools.create({ n: 1 }), await opened.pools.create({ n: 1 })];
  const [state] = await save(one, 1);
  const refused = restore(other, { seq: 1, pairs: [[state?.id as string, 0]] });
  await expect(refused).rejects.toMatchObject({ code: "state_not_found" });
  expect(await other.drop([state?.id as string])).toEqual([]);
});

test("a state does not cross to another sandbox", async () => {
  const pool = await opened.pools.create({ n: 2, shards: 2 });
  const [state] = await save(pool, 1, [0]);
  await expect(restore(pool, { seq: 2, pairs: [[state?.id as string, 1]] })).rejects.toMatchObject({
    code: "fork_unsupported",
    details: { sources: [{ state: state?.id, blockers: [{ shards: [0, 1] }] }] },
  });
});

test("a state that ended by itself says why, cannot be restored, and is listed until it is dropped", async () => {
  const pool = await opened.pools.create({ n: 2 });
  const [first, second] = await save(pool, 1);
  opened.driver.agents[0]?.event({ event: "state_lost", slot: 0, error: { kind: "oom", message: "too much memory" } });
  const listed = async () => (await pool.states({ memory: false })).states;
  await until(async () => (await listed())[0]?.lost !== null);
  expect((await listed()).map(({ lost }) => lost?.kind ?? null)).toEqual(["oom", null]);
  const refused = restore(pool, {
    seq: 2,
    pairs: [
      [first?.id as string, 0],
      [second?.id as string, 1],
    ],
  });
  await expect(refused).rejects.toMatchObject({
    code: "state_lost",
    message: expect.stringContaining("too much memory"),
    details: { states: [first?.id] },
  });
  expect(await pool.drop([first?.id as string])).toEqual([first?.id]);
  expect((await listed()).map(({ id }) => id)).toEqual([second?.id]);
});

test("states end with their sandbox; new ones are saved in the next", async () => {
  const pool = await opened.pools.create({ n: 2, shards: 1 });
  const [state] = await save(pool, 1, [0]);
  opened.driver.agents[0]?.die({ code: null, signal: "SIGKILL" });
  await until(() => opened.driver.agents[1]?.requests.at(-1)?.head.op === "layout");
  await expect(restore(pool, { seq: 2, pairs: [[state?.id as string, 1]] })).rejects.toMatchObject({
    code: "state_lost",
    details: { states: [state?.id], error: { kind: "crash", op: "idle" } },
  });
  const reset = { seq: 2 };
  await pool.reset(reset, raw(reset), "json");
  const [next] = await save(pool, 3, [1]);
  expect((await restore(pool, { seq: 4, pairs: [[next?.id as string, 0]] })).obs).toEqual([[1, 0]]);
  expect(await pool.drop([state?.id as string])).toEqual([state?.id]);
  expect((await restore(pool, { seq: 5, pairs: [[next?.id as string, 1]] })).obs).toEqual([[1, 0]]);
});

test("a sandbox that ends during a restore takes its states with it", async () => {
  const pool = await opened.pools.create({ n: 1 });
  const [state] = await save(pool, 1);
  opened.agents.interpose = (head, agent) => {
    if (head.op !== "branch") return undefined;
    agent.die({ code: 7, signal: null });
    return null;
  };
  const refused = restore(pool, { seq: 2, pairs: [[state?.id as string, 0]] });
  await expect(refused).rejects.toMatchObject({ code: "state_lost", details: { states: [state?.id] } });
  expect(pool.describe().next_seq).toBe(2);
});

test("more states than a sandbox may have are refused with both counts; none is saved", async () => {
  const pool = await opened.pools.create({ n: 600, shards: 1 });
  await save(pool, 1);
  await expect(save(pool, 2)).rejects.toMatchObject({
    code: "quota",
    details: { held: 600, asked: 600, limit: 1024, lost: 0 },
  });
  expect(pool.describe().next_seq).toBe(2);
  const mask = Array.from({ length: 600 }, (_, row) => row < 424);
  expect(await save(pool, 2, mask)).toHaveLength(424);
  await pool.drop(null);
  expect(await save(pool, 3)).toHaveLength(600);
});

test("an agent's refusal for too many bytes passes as it is", async () => {
  const pool = await opened.pools.create({ n: 1 });
  const details = { bytes: 2, limit_bytes: 1 };
  opened.agents.interpose = (head) =>
    head.op === "branch" ? { head: { ok: false, error: { code: "quota", message: "full", details } } } : undefined;
  await expect(save(pool, 1)).rejects.toMatchObject({ code: "quota", details });
  opened.agents.interpose = () => undefined;
  expect(await save(pool, 1)).toHaveLength(1);
});

test("memory is sampled where it is asked for", async () => {
  const pool = await opened.pools.create({ n: 2 });
  await save(pool, 1);
  const { states, limits } = await pool.states({ memory: true });
  expect(states.map(({ pss_bytes }) => pss_bytes)).toEqual([100, 101]);
  expect(limits).toEqual({ states: 1024, bytes: 2 ** 30 });
  expect((await pool.states({ memory: false })).states[0]).not.toHaveProperty("pss_bytes");
  expect((await pool.status({ memory: true })).memory?.states_pss_bytes).toBe(201);
});

test("nothing is saved of no rows", async () => {
  const pool = await opened.pools.create({ n: 2 });
  expect(await save(pool, 1, [])).toEqual([]);
  expect(await step(pool, 2, [1, 1])).toHaveLength(2);
});

test("while rows of the stream are out nothing is copied", async () => {
  const pool = await opened.pools.create({ n: 2 });
  opened.agents.interpose = (head) => (head.op === "send" ? { head: { ok: true } } : undefined);
  new StreamClient(pool).open().step([0], [1]);
  const busy = { code: "pool_busy", details: { out: 1 } };
  await expect(save(pool, 1)).rejects.toMatchObject(busy);
  await expect(fork(pool, { seq: 1, pairs: [[1, 0]] })).rejects.toMatchObject(busy);
});
