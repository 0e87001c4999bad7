import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { jsonActions, openTestPools, parseJson, until } from "../../fixtures/pool.ts";
import { countingScript, ScriptedDriver } from "../../fixtures/scripted-driver.ts";

let driver: ScriptedDriver;
let pools: Awaited<ReturnType<typeof openTestPools>>;

beforeEach(async () => {
  driver = new ScriptedDriver();
  pools = await openTestPools(driver);
});

afterEach(() => pools.close());

const empty = Buffer.from("{}");
const cartPole = { class: "CartPoleVectorEnv", autoreset: "next_step", partial_reset: false, row_seeds: false };

function saying(vector: Record<string, unknown>): void {
  driver.script = (head, body, agent) => {
    const reply = countingScript(head, body, agent);
    if (head.op === "start" && reply !== null) reply.head.hello = { features: ["batch"], vector };
    return reply;
  };
}

/** Seven rows: shard 0 has the processes [0,1] and [2,3], shard 1 [4,5] and [6]. */
async function createVector(vector: Record<string, unknown> = {}, members = {}) {
  saying({ ...cartPole, ...vector });
  return pools.create({ n: 7, shards: 2, envs_per_process: 2, ...members });
}

const sent = () => driver.agents.flatMap((agent) => agent.requests).filter(({ head }) => head.seq !== undefined);
const refused = (message: RegExp) => ({
  code: "vectorized_unsupported",
  status: 422,
  message: expect.stringMatching(message),
  details: expect.objectContaining({ class: "CartPoleVectorEnv" }),
});

describe("the autoreset mode of a vectorised environment", () => {
  test.each([null, "auto" as const, "next_step" as const])(
    "asked for %s, the pool has the environment's",
    async (autoreset) => {
      const pool = await createVector({}, { autoreset });
      expect(pool.describe()).toMatchObject({ autoreset: "next_step", vector: cartPole });
    },
  );

  test("another mode than its own fails the create and names the class", async () => {
    await expect(createVector({}, { autoreset: "same_step" })).rejects.toMatchObject(
      refused(/^autoreset: received "same_step"; .*CartPoleVectorEnv .*"next_step"\.$/),
    );
    await expect(createVector({ autoreset: null }, { autoreset: "same_step" })).rejects.toMatchObject(
      refused(/does not reset by itself/),
    );
    expect(driver.alive).toEqual([]);
  });
});

describe("rows that go together", () => {
  test.each([
    ["an index", [2]],
    ["a mask", [true, true, false, true, true, true, true]],
    ["indices in any order", [6, 4, 1, 0]],
  ])("a step of %s that cuts a process is refused before anything is sent", async (_, where) => {
    const pool = await createVector({ partial_reset: true });
    const count = where.filter((selected) => selected !== false).length;
    const step = pool.step(jsonActions(1, new Array(count).fill(1), where as number[]), "json");
    await expect(step).rejects.toMatchObject(
      refused(/^where: received \[\d\] of the rows \d to \d; .*steps with all 2/),
    );
    expect(sent()).toEqual([]);
    expect(pool.describe().next_seq).toBe(1);
  });

  test("whole processes, the short one too, are stepped in any order", async () => {
    const pool = await createVector();
    const batch = parseJson(await pool.step(jsonActions(1, [66, 33, 22], [6, 3, 2]), "json"));
    expect(batch.rewards).toEqual([22, 33, 66]);
    expect(sent().map(({ head }) => head.rows)).toEqual([[2, 3], [6]]);
  });

  test("a reset of a part is refused unless the class says that it can, a hard one always", async () => {
    const whole = await createVector();
    const reset = { seq: 1, where: [2] };
    await expect(whole.reset(reset, empty, "json")).rejects.toMatchObject(refused(/resets with all 2 rows/));
    const partly = await createVector({ partial_reset: true });
    await expect(partly.reset({ ...reset, hard: true }, empty, "json")).rejects.toMatchObject(refused(/hard reset/));
    expect(parseJson(await partly.reset(reset, empty, "json")).obs).toEqual([[2, 0]]);
  });

  test("after a restart a process answers as one, whichever of its rows were told", async () => {
    const pool = await createVector();
    driver.agents[0]?.die({ code: 1, signal: null });
    await until(() => driver.agents[2]?.requests.length === 2);
    // A call may select a part; its row alone was told the death.
    await pool.call({ seq: 1, name: "render", where: [1] }, empty, "json");
    const told = parseJson(await pool.step(jsonActions(2, [1, 1, 1, 1, 1, 1, 1]), "json"));
    expect(told).toMatchObject({ failed: [0, 1, 2, 3], rewards: [0, 0, 0, 0, 1, 1, 1] });
    const pending = parseJson(await pool.step(jsonActions(3, [1, 1, 1, 1, 1, 1, 1]), "json"));
    expect(pending).toMatchObject({ failed: [], rewards: [0, 0, 0, 0, 1, 1, 1] });
  });
});

describe("seeds and options of a vectorised environment", () => {
  test("one integer, nulls, and lists that count up within each process are taken", async () => {
    const pool = await createVector();
    await pool.reset({ seq: 1, seed: 5 }, empty, "json");
    await pool.reset({ seq: 2, seed: [7, 8, null, null, 1, 2, 90] }, empty, "json");
    expect(sent().map(({ head }) => head.seeds)).toEqual([
      [5, 6, 7, 8],
      [7, 8, null, null],
      [9, 10, 11],
      [1, 2, 90],
    ]);
  });

  test.each([
    ["not counting up", [7, 9, 0, 1, 0, 1, 0]],
    ["null for a part", [7, null, 0, 1, 0, 1, 0]],
  ])("a list %s is refused without row_seeds and taken with them", async (_, seed) => {
    const pool = await createVector();
    await expect(pool.reset({ seq: 1, seed }, empty, "json")).rejects.toMatchObject(
      refused(/^seed: received \[7, \S+\] for the rows \[0, 1\]; CartPoleVectorEnv takes one seed/),
    );
    const able = await createVector({ row_seeds: true });
    await able.reset({ seq: 1, seed }, empty, "json");
  });

  test("options that differ within a process are refused, one for all taken, and a list that is the same within each", async () => {
    const pool = await createVector();
    const options = [{}, {}, {}, { low: 1 }, {}, {}, {}];
    await expect(pool.reset({ seq: 1, options }, empty, "json")).rejects.toMatchObject(
      refused(/^options: received a list/),
    );
    await pool.reset({ seq: 1, options: { low: 0 } }, empty, "json");
    await pool.reset({ seq: 2, where: [6], options: [{ low: 1 }] }, Buffer.from('{"options":[{"low":1}]}'), "json");
    const same = { seq: 3, where: [6, 4, 5], options: [{ low: 1 }, { low: 2 }, { low: 2 }] };
    await pool.reset(same, Buffer.from(JSON.stringify(same)), "json");
    expect(sent()).toHaveLength(4);
    const cut = { seq: 4, where: [4, 6, 5], options: [{ low: 1 }, { low: 2 }, { low: 2 }] };
    await expect(pool.reset(cut, Buffer.from(JSON.stringify(cut)), "json")).rejects.toMatchObject(refused(/^options/));
  });
});

test("a pool without a vectorised environment is packed without any of these bounds", async () => {
  const pool = await pools.create({ n: 4, shards: 1, envs_per_process: 2 });
  await pool.step(jsonActions(1, [1], [1]), "json");
  await pool.reset(
    { seq: 2, where: [2, 1], seed: [9, 1], options: [{}, {}] },
    Buffer.from('{"options":[{},{}]}'),
    "json",
  );
  expect(sent().map(({ head }) => head.op)).toEqual(["step", "reset"]);
});
