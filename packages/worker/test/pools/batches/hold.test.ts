import { afterEach, beforeEach, expect, test } from "vitest";
import type { EncodedBatch, Pool } from "../../../src/index.ts";
import { arrayActions, bytesOf, openTestPools } from "../../fixtures/pool.ts";
import { countingScript, ScriptedDriver } from "../../fixtures/scripted-driver.ts";

const itemBytes = 200_000;

let driver: ScriptedDriver;
let pools: Awaited<ReturnType<typeof openTestPools>>;
let pool: Pool;

/** One row with a large observation, each byte the number of the step. */
beforeEach(async () => {
  driver = new ScriptedDriver();
  const layout = { kind: "array", fields: [{ dtype: "|u1", shape: [itemBytes] }], tree: { field: 0 } };
  driver.script = (head, body, agent) => {
    const reply = countingScript(head, body, agent);
    if (reply === null) return null;
    if (head.op === "start") reply.head.layout = layout;
    const [obs] = (reply.head.columns ?? []) as { length: number }[];
    if (obs === undefined || reply.body === undefined) return reply;
    const rest = reply.body.subarray(obs.length);
    obs.length = itemBytes;
    return { ...reply, body: Buffer.concat([Buffer.alloc(itemBytes, agent.steps), rest]) };
  };
  pools = await openTestPools(driver);
  pool = await pools.create({ n: 1 });
});

afterEach(() => pools.close());

const step = (seq: number): Promise<EncodedBatch> => pool.step(arrayActions(seq, [0]), "binary");

function observations(batch: EncodedBatch): Buffer {
  const chunk = batch.chunks.find(({ length }) => length === itemBytes);
  if (chunk === undefined) throw new Error("no chunk has the observations");
  return chunk;
}

test("the memory of a reply is used again when its caller let go and the next batch has begun", async () => {
  const first = await step(1);
  first.release?.();
  const second = await step(2);
  // The first one is kept for a repeated request until the second begins, so it is free for the second's reply.
  expect(observations(second).buffer).toBe(observations(first).buffer);
  expect(observations(second).every((byte) => byte === 2)).toBe(true);
});

test("a caller that does not let go keeps the bytes of its reply", async () => {
  const first = await step(1);
  const before = Buffer.from(bytesOf(first));
  for (let seq = 2; seq < 6; seq += 1) (await step(seq)).release?.();
  expect(bytesOf(first).equals(before)).toBe(true);
});

test("a repeated request holds the kept reply from the moment it is made", async () => {
  const first = await step(1);
  first.release?.();
  const again = step(1);
  const second = step(2);
  const repeated = await again;
  const before = Buffer.from(bytesOf(repeated));
  expect(observations(repeated).every((byte) => byte === 1)).toBe(true);
  (await second).release?.();
  (await step(3)).release?.();
  expect(bytesOf(repeated).equals(before)).toBe(true);
});

test("a repeated reply is the same once more while nobody began another batch", async () => {
  const first = await step(1);
  const bytes = Buffer.from(bytesOf(first));
  first.release?.();
  const again = await step(1);
  expect(bytesOf(again).equals(bytes)).toBe(true);
});
