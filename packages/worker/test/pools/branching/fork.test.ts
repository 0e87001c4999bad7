import { afterEach, beforeEach, expect, test } from "vitest";
import { parseBinary } from "../../fixtures/pool.ts";
import { fork, openBranchingPools, raw, step } from "./support.ts";

let opened: Awaited<ReturnType<typeof openBranchingPools>>;

beforeEach(async () => {
  opened = await openBranchingPools();
});

afterEach(async () => {
  await opened.pools.close();
  expect(opened.driver.alive).toEqual([]);
});

const operations = (agent: number): unknown[] =>
  (opened.driver.agents[agent]?.requests ?? []).map(({ head }) => head.op).slice(2);

test("the agent is told how many states there may be and where their memory is bounded", async () => {
  await opened.pools.create({ n: 2, workspace: "3GiB", memory: "64MiB" });
  const [agent] = opened.driver.agents;
  expect(agent?.requests[0]?.head).toMatchObject({
    states: 1024,
    states_memory: "/run/sandpool/memory/states",
    branch_workspace_bytes: 2 ** 30,
  });
  expect(agent?.spec.rowMemory?.statesBytes).toBe(agent?.spec.memoryBytes);
  await opened.pools.create({ n: 1, branching: false, workspace: "1MiB" });
  expect(opened.driver.agents[1]?.requests[0]?.head).toMatchObject({
    states_memory: null,
    branch_workspace_bytes: 2 ** 20,
  });
  expect(opened.driver.agents[1]?.spec.rowMemory?.statesBytes).toBeUndefined();
});

test("targets become the sources of one instant, over shards, and the reply is theirs in index order", async () => {
  const pool = await opened.pools.create({ n: 6, shards: 2 });
  await step(pool, 1, [1, 2, 3, 4, 5, 6]);
  const reply = await fork(pool, {
    seq: 2,
    pairs: [
      [5, 3],
      [3, 5],
      [1, 0],
      [1, 2],
    ],
  });
  expect(reply).toMatchObject({ seq: 2, failed: [], reseeded: [null, null, null, null] });
  expect(reply.obs).toEqual([
    [1, 2],
    [1, 2],
    [5, 6],
    [3, 4],
  ]);
  expect(await step(pool, 3, [1, 1, 1, 1, 1, 1])).toEqual([
    [1, 3],
    [1, 3],
    [1, 3],
    [5, 7],
    [4, 6],
    [3, 5],
  ]);
  expect(operations(0)).toEqual(["step", "branch", "settle", "step"]);
});

test("a shard without a pair is sent nothing, and each agent counts for itself", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  await fork(pool, { seq: 1, pairs: [[2, 3]] });
  await step(pool, 2, [0, 0, 0, 0]);
  expect([operations(0), operations(1)]).toEqual([["step"], ["branch", "settle", "step"]]);
  expect(opened.driver.agents.map((agent) => agent.requests.at(-1)?.head.seq)).toEqual([1, 2]);
});

test("no pairs are a batch of no rows", async () => {
  const pool = await opened.pools.create({ n: 2 });
  expect(await fork(pool, { seq: 1, pairs: [] })).toMatchObject({ seq: 1, obs: [], infos: [], failed: [] });
  expect(pool.describe().next_seq).toBe(2);
});

test("a binary reply has the columns of a reset, and what was reseeded in its map", async () => {
  const pool = await opened.pools.create({ n: 3 });
  const request = { seq: 1, pairs: [[2, 0] as [number, number]], reseed: 5 };
  const { map, columns } = parseBinary(await pool.fork(request, raw(request), "binary"));
  expect(map).toMatchObject({ seq: 1, rows: 1, failed: [], reseeded: [["random"]] });
  expect(columns).toEqual({ obs: [2, 0], infos: {} });
});

test.each([
  ["null", null, null, false],
  ["an integer s, s + i for target i", 10, [10, 13], false],
  ["a list, each pair's", [7, null], [null, 7], false],
  ["true, the agents' to derive", true, null, true],
])("reseed: %s", async (_, reseed, seeds, isDerived) => {
  const pool = await opened.pools.create({ n: 4 });
  await fork(pool, {
    seq: 1,
    pairs: [
      [1, 3],
      [1, 0],
    ],
    reseed: reseed as number,
  });
  const branch = opened.driver.agents[0]?.requests.find(({ head }) => head.op === "branch")?.head;
  expect(branch).toEqual({
    op: "branch",
    kind: "fork",
    pairs: [
      [1, 0],
      [1, 3],
    ],
    reseed: seeds,
    reseed_derived: isDerived,
  });
});

test("a target in which nothing could be reseeded is told in a warning", async () => {
  const pool = await opened.pools.create({ n: 4 });
  const reply = await fork(pool, {
    seq: 1,
    pairs: [
      [0, 1],
      [0, 2],
      [0, 3],
    ],
    reseed: 1,
  });
  expect(reply.reseeded).toEqual([[], ["random"], []]);
  expect(reply.warnings).toEqual([expect.stringMatching(/nothing could be reseeded in rows 1, 3, /)]);
});

test.each([
  [
    "a target twice",
    [
      [0, 1],
      [2, 1],
    ],
    null,
    /the target 1 twice/,
  ],
  ["a source out of range", [[3, 1]], null, /the source 3; expected a row from 0 to 2/],
  ["a target out of range", [[0, 7]], null, /the target 7; expected a row from 0 to 2/],
  ["seeds of another number", [[0, 1]], [1, 2], /a list of 2; 1 were expected/],
  ["a seed too large", [[0, 1]], Number.MAX_SAFE_INTEGER, /pass 2\^53 - 1/],
])("%s is refused before anything is sent and uses up no number", async (_, pairs, reseed, message) => {
  const pool = await opened.pools.create({ n: 3 });
  const refused = fork(pool, { seq: 1, pairs: pairs as [number, number][], reseed });
  await expect(refused).rejects.toMatchObject({ code: "invalid_request", message: expect.stringMatching(message) });
  expect([operations(0), pool.describe().next_seq]).toEqual([[], 1]);
});

test("a pair that crosses sandboxes is refused before anything is sent, naming both", async () => {
  const pool = await opened.pools.create({ n: 4, shards: 2 });
  const refused = fork(pool, {
    seq: 1,
    pairs: [
      [0, 1],
      [0, 3],
      [3, 0],
    ],
  });
  await expect(refused).rejects.toMatchObject({
    code: "fork_unsupported",
    message: expect.stringMatching(/row 0 cannot be copied: shards: 0, 1; row 3 .*Nothing was changed/),
    hint: expect.stringContaining("shards=1"),
    details: {
      sources: [
        { row: 0, blockers: [{ shards: [0, 1] }], text: "shards: 0, 1" },
        { row: 3, blockers: [{ shards: [1, 0] }], text: "shards: 1, 0" },
      ],
    },
  });
  expect([operations(0), operations(1), pool.describe().next_seq]).toEqual([[], [], 1]);
});

test("the same number gets the same reply, during the batch and after it, and nothing is copied twice", async () => {
  const pool = await opened.pools.create({ n: 2 });
  const request = { seq: 1, pairs: [[0, 1] as [number, number]] };
  const first = pool.fork(request, raw(request), "json");
  const during = pool.fork(request, raw(request), "json");
  expect(await during).toBe(await first);
  expect(await pool.fork(request, raw(request), "json")).toBe(await first);
  expect(operations(0)).toEqual(["branch", "settle"]);
  const other = { seq: 1, pairs: [[1, 0] as [number, number]] };
  await expect(fork(pool, other)).rejects.toMatchObject({ code: "pool_sequence" });
});
