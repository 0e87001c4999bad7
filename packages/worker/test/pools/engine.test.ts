import { afterEach, beforeEach, expect, test } from "vitest";
import { arrayActions, jsonActions, openTestPools, parseBinary, parseJson, until } from "../fixtures/pool.ts";
import { countingScript, ScriptedDriver } from "../fixtures/scripted-driver.ts";

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

test("rows are split into contiguous ranges and every shard gets the proposal of the one with row 0", async () => {
  const pool = await pools.create({ n: 5, shards: 2 });
  const [a, b] = driver.agents;
  expect([a?.first, a?.count, b?.first, b?.count]).toEqual([0, 3, 3, 2]);
  expect(a?.requests.map(({ head }) => head.op)).toEqual(["start", "layout"]);
  expect(b?.requests[1]?.head.layout).toEqual(pool.describe().layout);
});

test("the agent is told everything the worker decided", async () => {
  await pools.create({ n: 3, shards: 1, memory: "1GiB", seed: 9, env: { OMP_NUM_THREADS: "4" } });
  const head = driver.agents[0]?.requests[0]?.head ?? {};
  expect(head).toMatchObject({
    argv: ["/usr/bin/python3", "-u", "/env/env.py"],
    cwd: "/env",
    memory_bytes: 2 ** 30,
    seed: 9,
    episode_offset: 0,
  });
  expect(head.environ).toMatchObject({
    OMP_NUM_THREADS: "4",
    OPENBLAS_NUM_THREADS: "1",
    PYTHONUNBUFFERED: "1",
    SANDPOOL: "1",
  });
  expect(head.deadlines_ms).toEqual({ start: 120_000, reset: 60_000, step: 30_000, call: 30_000, close: 2000 });
});

test("a JSON step comes back as one reply in index order, numbers as the agents wrote them", async () => {
  const pool = await pools.create({ n: 3, shards: 2 });
  const batch = await pool.step(jsonActions(1, [10, 11, 12]), "json");
  expect(Buffer.concat(batch.chunks).toString()).toContain('"obs":[[0.0,1],[1.0,1],[2.0,1]]');
  expect(parseJson(batch)).toMatchObject({
    seq: 1,
    rewards: [10, 11, 12],
    terminated: [false, false, false],
    infos: [{}, {}, {}],
    failed: [],
  });
});

test("a binary step joins each column's buffers", async () => {
  const pool = await pools.create({ n: 3, shards: 2 });
  const { map, columns } = parseBinary(await pool.step(arrayActions(1, [10, 11, 12]), "binary"));
  expect(map).toMatchObject({ seq: 1, rows: 3, failed: [] });
  expect(columns).toEqual({
    obs: [0, 1, 1, 1, 2, 1],
    rewards: [10, 11, 12],
    terminated: [0, 0, 0],
    truncated: [0, 0, 0],
    infos: {},
  });
});

test("indices out of order keep each action with its row", async () => {
  const pool = await pools.create({ n: 5, shards: 2 });
  const json = parseJson(await pool.step(jsonActions(1, ["four", "one", "zero"], [4, 1, 0]), "json"));
  expect(json).toMatchObject({
    obs: [
      [0, 1],
      [1, 1],
      [4, 1],
    ],
    rewards: ["zero", "one", "four"],
  });
  const { columns } = parseBinary(await pool.step(arrayActions(2, [44, 11], [4, 1]), "binary"));
  expect(columns.rewards).toEqual([11, 44]);
});

test("a mask sends nothing to a shard without selected rows", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  const batch = parseJson(await pool.step(jsonActions(1, [7], [false, false, false, true]), "json"));
  expect(batch.obs).toEqual([[3, 1]]);
  expect(driver.agents[0]?.requests.some(({ head }) => head.op === "step")).toBe(false);
  expect(parseJson(await pool.step(jsonActions(2, [1, 2, 3, 4]), "json")).rewards).toEqual([1, 2, 3, 4]);
  expect(driver.agents.map((agent) => agent.requests.at(-1)?.head.seq)).toEqual([1, 2]);
});

test("an empty selection is a batch of no rows", async () => {
  const pool = await pools.create({ n: 2 });
  expect(parseJson(await pool.step(jsonActions(1, [], []), "json"))).toMatchObject({ seq: 1, obs: [], rewards: [] });
});

test.each([
  ["too few actions", jsonActions(1, [1]), /received 1; 3 were expected/],
  ["a short mask", jsonActions(1, [1], [true]), /a mask of 1 booleans/],
  ["an index out of range", jsonActions(1, [1], [3]), /the index 3; expected integers from 0 to 2/],
  ["an index twice", jsonActions(1, [1, 2], [1, 1]), /the index 1 twice/],
])("%s is refused before anything is sent and uses up no number", async (_, input, message) => {
  const pool = await pools.create({ n: 3 });
  await expect(pool.step(input, "json")).rejects.toMatchObject({
    code: "invalid_request",
    message: expect.stringMatching(message),
  });
  expect(pool.describe().next_seq).toBe(1);
  expect(driver.agents.flatMap((agent) => agent.requests).some(({ head }) => head.op === "step")).toBe(false);
});

test("the same number gets the same reply, during the batch and after it, and nothing is stepped twice", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  const first = pool.step(jsonActions(1, [1, 2]), "json");
  const during = pool.step(jsonActions(1, [1, 2]), "json");
  expect(await during).toBe(await first);
  expect(await pool.step(jsonActions(1, [1, 2]), "json")).toBe(await first);
  expect(driver.agents[0]?.steps).toBe(1);
});

test("the same number with another request gets no other request's reply and is not executed", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  const others: (() => Promise<unknown>)[] = [
    () => pool.step(jsonActions(1, [3, 4]), "json"),
    () => pool.step(arrayActions(1, [1, 2]), "json"),
    () => pool.reset({ seq: 1 }, Buffer.from('{"seq":1}'), "json"),
    () => pool.call({ seq: 1, name: "render" }, Buffer.from('{"seq":1,"name":"render"}'), "json"),
  ];
  const first = pool.step(jsonActions(1, [1, 2]), "json");
  for (const other of others) await expect(other()).rejects.toMatchObject({ code: "pool_busy" });
  await first;
  for (const other of others) {
    await expect(other()).rejects.toMatchObject({ code: "pool_sequence", details: { expected: 2, received: 1 } });
  }
  expect(driver.agents[0]?.requests.filter(({ head }) => head.op !== "start" && head.op !== "layout")).toHaveLength(1);
});

test("a batch that every agent refuses leaves its number free; one that an agent executed does not", async () => {
  const refusing = new Set([0, 3]);
  driver.script = (head, body, agent) =>
    head.op === "step" && refusing.has(agent.first)
      ? { head: { ok: false, error: { code: "invalid_request", message: "no", hint: null, details: {} } } }
      : countingScript(head, body, agent);
  const pool = await pools.create({ n: 5, shards: 2 });
  const refused = pool.step(jsonActions(1, [1, 1, 1, 1, 1]), "json");
  await expect(refused).rejects.toMatchObject({ code: "invalid_request" });
  expect(pool.describe().next_seq).toBe(1);
  refusing.delete(0);
  await expect(pool.step(jsonActions(1, [2, 2, 2, 2, 2]), "json")).rejects.toMatchObject({ code: "invalid_request" });
  expect(pool.describe().next_seq).toBe(2);
  refusing.clear();
  expect(parseJson(await pool.step(jsonActions(2, [3, 3, 3, 3, 3]), "json")).rewards).toEqual([3, 3, 3, 3, 3]);
});

test("another number during a batch is pool_busy, one out of order pool_sequence", async () => {
  const pool = await pools.create({ n: 1 });
  const running = pool.step(jsonActions(1, [1]), "json");
  await expect(pool.step(jsonActions(2, [1]), "json")).rejects.toMatchObject({ code: "pool_busy" });
  await running;
  await expect(pool.step(jsonActions(3, [1]), "json")).rejects.toMatchObject({
    code: "pool_sequence",
    details: { expected: 2, received: 3 },
  });
});

test("an integer seed of a full reset gives row i the seed s + i and becomes the pool's", async () => {
  const pool = await pools.create({ n: 3, shards: 2 });
  await pool.reset({ seq: 1, seed: 40 }, Buffer.from("{}"), "json");
  const heads = driver.agents.map((agent) => agent.requests.at(-1)?.head);
  expect(heads.map((head) => [head?.seeds, head?.seed])).toEqual([
    [[40, 41], 40],
    [[42], 40],
  ]);
  expect(pool.describe().seed).toBe(40);
  await pool.reset({ seq: 2, seed: 7, where: [2] }, Buffer.from("{}"), "json");
  expect(driver.agents[1]?.requests.at(-1)?.head).toMatchObject({ seeds: [9], rows: null, offset: 0, total: 1 });
  expect(pool.describe().seed).toBe(40);
});

test("a list of options follows its rows, byte for byte", async () => {
  const pool = await pools.create({ n: 3, shards: 1 });
  const options = [{ level: 2 }, { level: 0 }];
  await pool.reset({ seq: 1, where: [2, 0], options }, Buffer.from('{"options":[{"level":2.0},{"level":0}]}'), "json");
  expect(driver.agents[0]?.requests.at(-1)?.body.toString()).toBe('{"options":[{"level":0},{"level":2.0}]}');
});

test("a sandbox that dies fails its rows at once and leaves the others alone", async () => {
  const pool = await pools.create({ n: 4, shards: 2 });
  driver.script = (head, body, agent) => {
    if (head.op !== "step" || agent.first !== 2) return countingScript(head, body, agent);
    agent.die({ code: 3, signal: null });
    return null;
  };
  const batch = parseJson(await pool.step(jsonActions(1, [1, 2, 3, 4]), "json"));
  expect(batch).toMatchObject({
    obs: [[0, 1], [1, 1], null, null],
    rewards: [1, 2, 0, 0],
    truncated: [false, false, true, true],
    failed: [2, 3],
  });
  expect(batch.infos[2]).toMatchObject({
    sandpool_error: { kind: "crash", op: "step", exit_code: 3, stderr_tail: "scripted stderr" },
  });
});

test("a shard is started again with later episodes, and its rows hold their error until each is reset", async () => {
  const pool = await pools.create({ n: 4, shards: 2, seed: 5 });
  driver.agents[1]?.die({ code: null, signal: "SIGKILL" });
  await until(() => driver.agents.length === 3 && driver.agents[2]?.requests.length === 2);
  const head = driver.agents[2]?.requests[0]?.head;
  expect(head).toMatchObject({ first: 2, count: 2, seed: 5, episode_offset: 1, first_reset: false });
  const held = parseJson(await pool.step(jsonActions(1, [1, 2, 3, 4]), "json"));
  expect(held.infos[3]).toMatchObject({ sandpool_error: { kind: "crash", signal: "SIGKILL" } });
  expect(held.infos[3]?.sandpool_error).not.toHaveProperty("repeated");
  expect(parseJson(await pool.reset({ seq: 2, where: [3] }, Buffer.from("{}"), "json")).obs).toEqual([[3, 0]]);
  const mixed = parseJson(await pool.step(jsonActions(3, [1, 2, 3, 4]), "json"));
  expect(mixed).toMatchObject({ obs: [[0, 2], [1, 2], null, [3, 1]], rewards: [1, 2, 0, 4], failed: [2] });
  expect(mixed.infos[2]).toMatchObject({ sandpool_error: { kind: "crash", repeated: true } });
  await pool.reset({ seq: 4 }, Buffer.from("{}"), "json");
  const { columns } = parseBinary(await pool.step(arrayActions(5, [1, 2, 3, 4]), "binary"));
  expect(columns).toMatchObject({ rewards: [1, 2, 3, 4], infos: {} });
});

test("in an autoreset mode a death between batches is told once, by the row's next step, and the one after it is the pending reset", async () => {
  const pool = await pools.create({ n: 2, shards: 1, autoreset: "next_step" });
  await pool.step(arrayActions(1, [1, 2]), "binary");
  driver.agents[0]?.die({ code: 1, signal: null });
  await until(() => driver.agents[1]?.requests.length === 2);
  const told = parseJson(await pool.step({ ...jsonActions(2, [8]), where: [1] }, "json"));
  expect(told).toMatchObject({ truncated: [true], failed: [1], infos: [{ sandpool_error: { kind: "crash" } }] });
  expect(told.infos[0]?.sandpool_error).not.toHaveProperty("repeated");
  const mixed = parseJson(await pool.step(jsonActions(3, [8, 9]), "json"));
  expect(mixed).toMatchObject({ obs: [null, [1, 0]], rewards: [0, 0], truncated: [true, false], failed: [0] });
  const { columns } = parseBinary(await pool.step(arrayActions(4, [8, 9]), "binary"));
  expect(columns).toMatchObject({ rewards: [0, 9], truncated: [0, 0], infos: {} });
  expect(driver.agents[1]?.requests.slice(2).map(({ head }) => head.op)).toEqual(["reset", "reset", "step"]);
});

test("a shard that cannot be started again three times is lost until a hard reset", async () => {
  const pool = await pools.create({ n: 1 });
  let refuse = true;
  driver.script = (head, body, agent) => {
    if (head.op !== "start" || !refuse) return countingScript(head, body, agent);
    return { head: { ok: false, error: { code: "environment_failed", message: "no luck" } } };
  };
  driver.agents[0]?.die({ code: 1, signal: null });
  await until(async () => (await pool.status({ memory: false })).rows[0]?.state === "lost");
  const soft = parseJson(await pool.reset({ seq: 1 }, Buffer.from("{}"), "json"));
  expect(soft.infos[0]).toMatchObject({
    sandpool_error: { kind: "lost", message: expect.stringContaining("no luck") },
  });
  refuse = false;
  const hard = parseJson(await pool.reset({ seq: 2, hard: true }, Buffer.from("{}"), "json"));
  expect(hard).toMatchObject({ obs: [[0, 0]], failed: [] });
  expect(driver.agents.length).toBe(5);
});

test("columns that are not those of the contract fail the batch rather than shift its rows", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  driver.script = (head, body, agent) => {
    const reply = countingScript(head, body, agent);
    const [first] = (reply?.head.columns ?? []) as { length: number }[];
    if (head.op === "step" && first !== undefined) first.length -= 8;
    return reply;
  };
  await expect(pool.step(arrayActions(1, [1, 2]), "binary")).rejects.toMatchObject({ code: "agent_failed" });
});

test("status, logs and observations are answered while a batch runs", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  driver.script = (head, body, agent) => (head.op === "step" ? null : countingScript(head, body, agent));
  const running = pool.step(jsonActions(1, [1, 2]), "json");
  expect(await pool.status({ memory: true })).toMatchObject({
    counters: { late_replies: 1 },
    memory: {
      method: "scripted",
      environments_pss_bytes: 2000,
      templates_pss_bytes: 5,
      agents_pss_bytes: 6,
      states_pss_bytes: 0,
    },
  });
  expect((await pool.logs(1)).toString()).toBe("log of 1");
  expect(parseJson(await pool.observations("json")).obs).toEqual([
    [0, 0],
    [1, 0],
  ]);
  const closed = { code: "pool_closed", details: { pool: pool.id, reason: "deleted" } };
  await Promise.all([expect(running).rejects.toMatchObject(closed), pool.close()]);
});

test("calls carry their name, kind and deadline, and results come in index order", async () => {
  const pool = await pools.create({ n: 3, shards: 2 });
  const batch = parseJson(
    await pool.call({ seq: 1, name: "render", timeout: 1.5, where: [2, 0] }, Buffer.from("{}"), "json"),
  );
  expect(batch.results).toEqual(["render 0", "render 2"]);
  expect(driver.agents[1]?.requests.at(-1)?.head).toMatchObject({
    op: "call",
    call: "call",
    name: "render",
    deadline_ms: 1500,
    offset: 1,
  });
});

test("a batch that runs when the server stops says so", async () => {
  const pool = await pools.create({ n: 2, shards: 1 });
  driver.script = (head, body, agent) => (head.op === "step" ? null : countingScript(head, body, agent));
  const running = pool.step(jsonActions(1, [1, 2]), "json");
  const closed = { code: "pool_closed", details: { reason: "server_stopped" } };
  await Promise.all([expect(running).rejects.toMatchObject(closed), pools.registry.closeAll()]);
});

test("a pool that nothing asks for closes when its lease ends", async () => {
  const pool = await pools.create({ n: 2, lease: 0.2 });
  await until(() => driver.alive.length === 0);
  expect(() => pools.registry.get("owner-1", pool.id)).toThrow(/lease expired/);
  await expect(pool.step(jsonActions(1, [1, 2]), "json")).rejects.toMatchObject({
    code: "pool_closed",
    details: { reason: "lease" },
  });
});

test("another owner's pool does not exist, and a live name is taken", async () => {
  const pool = await pools.create({ n: 1, name: "mine" });
  expect(pools.registry.get("owner-1", "mine")).toBe(pool);
  for (const key of [pool.id, "mine"]) expect(() => pools.registry.get("owner-2", key)).toThrow(/There is no pool/);
  await expect(pools.create({ n: 1, name: "mine" })).rejects.toMatchObject({ code: "name_taken" });
  await pool.close();
  await pools.create({ n: 1, name: "mine" });
});

test.each(["start", "layout"])("an abort while the agents answer %s leaves nothing", async (phase) => {
  const abort = new AbortController();
  driver.script = (head, body, agent) => {
    if (head.op !== phase) return countingScript(head, body, agent);
    if (agent.first > 0) abort.abort();
    return null;
  };
  await expect(pools.create({ n: 4, shards: 2 }, { signal: abort.signal })).rejects.toMatchObject({
    code: "creation_aborted",
  });
  expect(driver.alive).toEqual([]);
  expect(pools.registry.list("owner-1")).toEqual([]);
});

test("a fault of one environment fails the whole create with its row, and the other shards are ended", async () => {
  driver.script = (head, body, agent) => {
    if (head.op !== "start") return countingScript(head, body, agent);
    if (agent.first === 0) return null;
    const details = { row: 3, kind: "exception", op: "reset", stderr_tail: "boom" };
    return { head: { ok: false, error: { code: "environment_failed", message: "environment 3 raised", details } } };
  };
  await expect(pools.create({ n: 4, shards: 2 })).rejects.toMatchObject({
    code: "environment_failed",
    details: { row: 3, stderr_tail: "boom" },
  });
  expect(driver.alive).toEqual([]);
});

test("progress is summed over the shards", async () => {
  const seen: unknown[] = [];
  driver.script = (head, body, agent) => {
    if (head.op === "start") agent.progress("start", agent.count, agent.count);
    return countingScript(head, body, agent);
  };
  await pools.create({ n: 5, shards: 2 }, { onProgress: (progress) => seen.push(progress) });
  expect(seen).toEqual([
    { phase: "start", done: 3, total: 5 },
    { phase: "start", done: 5, total: 5 },
  ]);
});

test.each([
  [{ n: 70_000 }, "invalid_request", /at most 65536/],
  [{ n: 20_000 }, "invalid_request", /20000 processes.*at most 10000 processes/],
  [{ n: 20_000, envs_per_process: "auto" as const }, "invalid_request", /up to 20000 processes/],
  [{ n: 2, shards: 3 }, "invalid_request", /at most 2 are possible/],
  [{ n: 2, config: [1] }, "invalid_request", /a list of 1/],
  [{ n: 1, entry: "missing.py" }, "invalid_request", /there is no "missing.py"/],
  [{ n: 1, memory: "lots" }, "invalid_request", /memory is "lots"/],
  [{ n: 1, image: "alpine" }, "image_not_found", /alpine/],
  [{ n: 1, isolation: "gvisor" as const }, "driver_unavailable", /gvisor/],
  [{ n: 1, archive: "0".repeat(64) }, "archive_not_found", /0000/],
])("%j is refused with %s", async (members, code, message) => {
  await expect(pools.create(members)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  expect(driver.agents).toEqual([]);
});
