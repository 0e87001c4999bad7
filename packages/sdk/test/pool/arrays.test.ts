import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decodeValue, NdArray, type RLPool, Tuple, type Value } from "../../src/index.ts";
import { makePool } from "../support/pools.ts";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
}, 60_000);
afterAll(() => server?.stop(), 60_000);

const start = "spawn" as const;

/** The same request in JSON, as a client without arrays sends it. */
async function postJson(pool: RLPool<unknown>, operation: string, members: object): Promise<Record<string, unknown[]>> {
  const reply = await request(`${server.url}/v1/pools/${pool.id}/${operation}`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify(members),
  });
  return (await reply.body.json()) as Record<string, unknown[]>;
}

/** What a value is without arrays: as JSON has it. */
function plain(value: Value): unknown {
  if (value instanceof NdArray) return value.toList();
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}

/** Item i of every array in a tree of them. */
function rowOf(value: Value, row: number): unknown {
  if (value instanceof NdArray) return value.row(row).toList();
  if (value instanceof Tuple) return value.map((part) => rowOf(part, row));
  return Object.fromEntries(Object.entries(value as object).map(([key, part]) => [key, rowOf(part, row)]));
}

describe("observations of an array pool", { timeout: 60_000 }, () => {
  test("are typed arrays of the space's dtype and shape, one for all rows", async () => {
    await using images = await makePool(server, "forms", { n: 2, start, config: { form: "image" } });
    const { observations } = await images.step([0, 0]);
    expect([observations.dtype, observations.shape]).toEqual(["|u1", [2, 84, 84, 4]]);
    expect(observations.data).toBeInstanceOf(Uint8Array);
    const expected = (row: number, step: number) =>
      Uint8Array.from({ length: 84 * 84 * 4 }, (_, place) => (row * 31 + step * 7 + place) % 256);
    expect(observations.row(1).toBytes()).toEqual(expected(1, 1));
    const { observations: next } = await images.step([0], [1]);
    expect(next.row(0).toBytes()).toEqual(expected(0, 1));
    expect(next.row(1).toBytes()).toEqual(expected(1, 2));
    // What was returned earlier is as it was.
    expect(observations.row(1).toBytes()).toEqual(expected(1, 1));
  });

  test("hold float16, int64 beyond 2^53 and booleans exactly", async () => {
    await using half = await makePool(server, "forms", { n: 2, start, config: { form: "half" } });
    expect(half.initialObservations.data).toEqual(Float16Array.of(0.5, 0.25, 1.5, 0.25));
    await using wide = await makePool(server, "forms", { n: 2, start, config: { form: "wide" } });
    expect(wide.initialObservations.data).toEqual(BigInt64Array.of(2n ** 53n + 1n, 0n, 2n ** 53n + 2n, 0n));
    expect(wide.initialObservations.toList()).toEqual([
      [2n ** 53n + 1n, 0],
      [2n ** 53n + 2n, 0],
    ]);
    await using flags = await makePool(server, "forms", { n: 2, start, config: { form: "flags" } });
    expect(flags.initialObservations.dtype).toBe("|b1");
    expect(flags.initialObservations.toList()).toEqual([
      [true, true, true],
      [false, true, true],
    ]);
  });

  test("of Dict and Tuple spaces are a dict and a Tuple of arrays, in the space's order", async () => {
    type Observations = { z: NdArray; inner: [NdArray, NdArray] };
    await using pool = await makePool<Observations>(server, "forms", { n: 2, start, config: { form: "dict" } });
    const { observations } = await pool.step([0, 0]);
    expect(Object.keys(observations)).toEqual(["z", "inner"]);
    expect(observations.inner).toBeInstanceOf(Tuple);
    expect(plain(observations as unknown as Value)).toEqual({
      z: [
        [0.5, 1.25],
        [1.5, 1.25],
      ],
      inner: [
        [
          [2n ** 53n + 1n, -1],
          [2n ** 53n + 2n, -1],
        ],
        [0.5, 1.5],
      ],
    });
  });

  test.each(["image", "half", "wide", "flags", "dict"])(
    "equal those of the same pool driven in JSON: %s",
    async (form) => {
      const options = { n: 3, start, seed: 4, config: { form } };
      await using typed = await makePool<Value>(server, "forms", options);
      await using driven = await makePool<Value>(server, "forms", options);
      await typed.reset({ seed: [7, null, 9] });
      await postJson(driven, "reset", { seq: 1, seed: [7, null, 9] });
      for (let seq = 2; seq <= 4; seq += 1) {
        const result = await typed.step([1, 2, 3]);
        const json = await postJson(driven, "step", { seq, actions: [1, 2, 3] });
        const digits = (value: unknown) =>
          JSON.stringify(value, (_, item) => (typeof item === "bigint" ? Number(item) : item));
        for (let row = 0; row < 3; row += 1) {
          expect(digits(rowOf(result.observations, row))).toBe(digits(plain(decodeValue(json.obs?.[row] ?? null))));
        }
        expect([...result.rewards]).toEqual(json.rewards);
        expect([result.terminated, result.truncated]).toEqual([json.terminated, json.truncated]);
        expect(result.infos.map((info) => plain(info))).toEqual(json.infos?.map((info) => plain(decodeValue(info))));
      }
    },
  );
});

describe("actions", { timeout: 60_000 }, () => {
  test("of a typed array reach each environment as its row, shaped by the space", async () => {
    await using pool = await makePool(server, "forms", { n: 2, start, config: { form: "half", actions: "pair" } });
    const { infos } = await pool.step(Float32Array.of(0, 0.25, 0.5, 1));
    expect(infos.map(({ action }) => plain(action as Value))).toEqual([
      [0, 0.25],
      [0.5, 1],
    ]);
    expect(infos[1]?.action_mask).toEqual(NdArray.from(Int8Array.of(1, 0)));
    await expect(pool.step(Float32Array.of(1, 2, 3))).rejects.toThrow(/expected 2/);
  });

  test("of a Dict space may be columns", async () => {
    await using pool = await makePool(server, "forms", { n: 2, start, config: { form: "half", actions: "dict" } });
    const aim = NdArray.from(Float32Array.of(1, 2, 3, 4), [2, 2]);
    const { infos } = await pool.step({ move: [1, 2], aim });
    expect(infos.map(({ action }) => plain(action as Value))).toEqual([
      { move: 1, aim: [1, 2] },
      { move: 2, aim: [3, 4] },
    ]);
  });
});

describe("failed rows", { timeout: 60_000 }, () => {
  test("of an array pool hold the last good observation, those of a list pool are null", async () => {
    await using arrays = await makePool(server, "forms", { n: 2, start, config: { form: "half" } });
    await arrays.step([0, 0]);
    const failed = await arrays.step(["crash", 0]);
    expect(failed.observations.toList()).toEqual([
      [0.5, 1.25],
      [1.5, 2.25],
    ]);
    expect(arrays.errors.get(0)).toMatchObject({ kind: "crash", exitCode: 3 });
    await using texts = await makePool<(string | null)[]>(server, "forms", { n: 2, start, config: { form: "text" } });
    await texts.step([0, 0]);
    expect((await texts.step([0, "crash"])).observations).toEqual(["row 0 step 2", null]);
    expect((await texts.step([0], [0])).observations).toEqual(["row 0 step 3", "row 1 step 1"]);
    expect((await texts.reset({ where: [1] })).observations).toEqual(["row 0 step 3", "row 1 step 0"]);
  });
});
