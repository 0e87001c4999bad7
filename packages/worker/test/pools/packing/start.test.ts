import { afterEach, beforeEach, expect, test } from "vitest";
import { jsonActions, openTestPools, parseJson, until } from "../../fixtures/pool.ts";
import { countingScript, type Script, ScriptedDriver } from "../../fixtures/scripted-driver.ts";

let driver: ScriptedDriver;
let pools: Awaited<ReturnType<typeof openTestPools>>;

beforeEach(async () => {
  driver = new ScriptedDriver();
  pools = await openTestPools(driver);
});

afterEach(async () => {
  await pools.close();
  expect(driver.alive).toEqual([]);
});

const startHead = (index: number) => driver.agents[index]?.requests[0]?.head;

/** Agents that start once they were told the rows a process; the first one has measured. */
function measuring(measured: Record<string, unknown>): Script {
  return (head, body, agent) => {
    if (head.op === "start" && head.rows_per_process === null) {
      if (head.measure === true) agent.event({ event: "measured", ...measured });
      return null;
    }
    if (head.op === "pack") {
      const start = agent.requests.find((request) => request.head.op === "start");
      agent.answer(start?.sequence ?? 0, countingScript(start?.head ?? {}, body, agent)?.head ?? {});
    }
    return countingScript(head, body, agent);
  };
}

test("an integer goes to every agent at its start, with a memory group for each process", async () => {
  const pool = await pools.create({ n: 10, shards: 3, envs_per_process: 4, memory: "64MiB" });
  expect(driver.agents.map(({ first, count }) => [first, count])).toEqual([
    [0, 4],
    [4, 4],
    [8, 2],
  ]);
  for (const index of [0, 1, 2]) {
    expect(startHead(index)).toMatchObject({ rows_per_process: 4, memory_bytes: 2 ** 26 });
    expect(startHead(index)).not.toHaveProperty("measure");
  }
  const groups = driver.agents.map(({ spec }) => spec.rowMemory?.limitsBytes);
  expect(groups).toEqual([[2 ** 28], [2 ** 28], [2 ** 27]]);
  expect(pool.describe()).toMatchObject({
    shards: 3,
    packing: { requested: 4, rows_per_process: 4, processes: 3, step_us: null },
    vector: null,
  });
});

test("a process never gets more memory than its shard has", async () => {
  await pools.create({ n: 2, shards: 1, envs_per_process: 2, memory: "1TiB" });
  const { spec } = driver.agents[0] ?? {};
  expect(spec?.rowMemory?.limitsBytes).toEqual([spec?.memoryBytes]);
  expect(startHead(0)?.shard_memory_bytes).toBe(spec?.memoryBytes);
});

test("there are never more shards than processes, and a number of shards that was asked for in vain is told", async () => {
  const pool = await pools.create({ n: 6, shards: 4, envs_per_process: 3 });
  expect(pool.describe()).toMatchObject({
    shards: 2,
    warnings: [expect.stringMatching(/^shards: 4 were asked for; 2/)],
  });
  const automatic = await pools.create({ n: 6, envs_per_process: 6 });
  expect(automatic.describe()).toMatchObject({ shards: 1, warnings: [] });
});

test("more rows a process than the pool has are refused", async () => {
  await expect(pools.create({ n: 3, envs_per_process: 4 })).rejects.toMatchObject({
    code: "invalid_request",
    message: "envs_per_process: received 4; the pool has 3 rows.",
  });
});

test("auto: the first agent measures, the limits are raised, and then every agent is told the same number", async () => {
  driver.script = measuring({ step_us: 4.1, reason: null, packable: true });
  const pool = await pools.create({ n: 7, shards: 2, envs_per_process: "auto", memory: "64MiB" });
  const heads = driver.agents.map(({ requests }) => requests.map(({ head }) => head));
  expect(heads.map((sent) => sent.map(({ op }) => op))).toEqual([
    ["start", "pack", "layout"],
    ["start", "pack", "layout"],
  ]);
  expect(heads.map(([start]) => [start?.count, start?.rows_per_process, start?.measure])).toEqual([
    [4, null, true],
    [3, null, undefined],
  ]);
  expect(heads.map(([, pack]) => pack?.rows_per_process)).toEqual([4, 4]);
  // While the choice is open every row has a group; then process 0 gets its rows' memory together.
  expect(driver.agents.map(({ spec }) => spec.rowMemory?.limitsBytes.length)).toEqual([4, 3]);
  expect(driver.agents.map(({ raisedBytes }) => raisedBytes)).toEqual([[2 ** 28], [3 * 2 ** 26]]);
  expect(pool.describe().packing).toEqual({
    requested: "auto",
    rows_per_process: 4,
    processes: 2,
    step_us: 4.1,
    reason: "a step takes 4.10 us, at most 250 us: rows share processes",
  });
});

test.each([
  ["dear", { step_us: 900, reason: null, packable: true }],
  ["not measured", { step_us: null, reason: "no action space", packable: true }],
  ["not packable", { step_us: null, reason: "a program of another language", packable: false }],
])("auto: what is %s gets a process for each row, with the limits it had", async (_, measured) => {
  driver.script = measuring(measured);
  const pool = await pools.create({ n: 4, shards: 1, envs_per_process: "auto" });
  expect(driver.agents[0]?.requests[1]?.head).toEqual({ op: "pack", rows_per_process: 1 });
  expect(driver.agents[0]?.raisedBytes).toBeNull();
  expect(pool.describe().packing).toMatchObject({ rows_per_process: 1, processes: 4 });
});

test("auto with a shard for each row has nothing to measure", async () => {
  const pool = await pools.create({ n: 2, shards: 2, envs_per_process: "auto" });
  expect([startHead(0), startHead(1)].map((head) => head?.rows_per_process)).toEqual([1, 1]);
  expect(pool.describe().packing).toMatchObject({
    requested: "auto",
    rows_per_process: 1,
    reason: "each shard has one row",
  });
});

test("an agent that dies while it measures fails the create, and nothing waits for its answer", async () => {
  driver.script = (head, body, agent) => {
    if (head.measure === true) agent.die({ code: 1, signal: null });
    return head.op === "start" ? null : countingScript(head, body, agent);
  };
  await expect(pools.create({ n: 4, shards: 2, envs_per_process: "auto" })).rejects.toMatchObject({
    code: "environment_failed",
  });
});

test("an agent's refusal to pack reaches the client with its code", async () => {
  driver.script = (head, body, agent) =>
    head.op === "start"
      ? {
          head: {
            ok: false,
            error: { code: "packing_unsupported", message: "one environment object", hint: "use serve(make=…)" },
          },
        }
      : countingScript(head, body, agent);
  await expect(pools.create({ n: 2, envs_per_process: 2 })).rejects.toMatchObject({
    code: "packing_unsupported",
    status: 422,
    hint: "use serve(make=…)",
  });
});

test("a dead shard is started again with the number of rows a process that was chosen", async () => {
  driver.script = measuring({ step_us: 4.1, reason: null, packable: true });
  const pool = await pools.create({ n: 4, shards: 2, envs_per_process: "auto", memory: "64MiB" });
  driver.agents[1]?.die({ code: null, signal: "SIGKILL" });
  await until(() => driver.agents.length === 3 && driver.agents[2]?.requests.length === 2);
  expect(startHead(2)).toMatchObject({ first: 2, count: 2, rows_per_process: 2 });
  expect(startHead(2)).not.toHaveProperty("measure");
  expect(driver.agents[2]?.spec.rowMemory?.limitsBytes).toEqual([2 ** 27]);
  const status = await pool.status({ memory: false });
  expect(status.counters.replacements).toBe(1);
  // Every row of the process holds the error until it is reset itself.
  const held = parseJson(await pool.step(jsonActions(1, [1, 2, 3, 4]), "json"));
  expect(held).toMatchObject({ rewards: [1, 2, 0, 0], failed: [2, 3] });
  await pool.reset({ seq: 2, where: [3] }, Buffer.from("{}"), "json");
  const mixed = parseJson(await pool.step(jsonActions(3, [1, 2, 3, 4]), "json"));
  expect(mixed).toMatchObject({ rewards: [1, 2, 0, 4], failed: [2] });
});

test("the autoreset mode auto is same-step where nothing is vectorised", async () => {
  const pool = await pools.create({ n: 2, autoreset: "auto" });
  expect(startHead(0)?.autoreset).toBe("auto");
  expect(pool.describe()).toMatchObject({ autoreset: "same_step", vector: null });
});
