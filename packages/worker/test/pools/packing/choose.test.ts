import { describe, expect, test } from "vitest";
import { choosePacking, fixedPacking } from "../../../src/pools/packing/choose.ts";
import { divideEvenly, divideRows } from "../../../src/pools/packing/divide.ts";

const measured = (stepUs: number) => ({ stepUs, reason: null, packable: true });

describe("rows divided over shards of whole processes", () => {
  test.each([
    { n: 10, shards: 2, k: 4, counts: [8, 2] },
    { n: 10, shards: 3, k: 4, counts: [4, 4, 2] },
    { n: 10, shards: 4, k: 4, counts: [4, 4, 2] },
    { n: 5, shards: 2, k: 1, counts: [3, 2] },
    { n: 5, shards: 2, k: 5, counts: [5] },
    { n: 1000, shards: 2, k: 7, counts: [504, 496] },
  ])("$n rows, $shards shards, $k a process: $counts", ({ n, shards, k, counts }) => {
    const ranges = divideRows(n, shards, k);
    expect(ranges.map(({ count }) => count)).toEqual(counts);
    expect(ranges.every(({ first }) => first % k === 0)).toBe(true);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(n);
  });

  test("before the rows a process are known all shards but the last are equal", () => {
    expect(divideEvenly(10, 4).map(({ count }) => count)).toEqual([3, 3, 3, 1]);
    expect(divideEvenly(9, 4).map(({ count }) => count)).toEqual([3, 3, 3]);
  });
});

describe("rows a process, chosen by the time of a step", () => {
  test.each([
    { n: 1000, shards: 2, stepUs: 4, cores: 2, rowsPerProcess: 500, why: "one process a shard" },
    { n: 8, shards: 1, stepUs: 4, cores: 8, rowsPerProcess: 8, why: "32 us of work keep no second process busy" },
    { n: 64, shards: 1, stepUs: 100, cores: 4, rowsPerProcess: 16, why: "6.4 ms of work: a process a core" },
    { n: 64, shards: 1, stepUs: 20, cores: 4, rowsPerProcess: 32, why: "1.28 ms of work: two processes" },
    { n: 128, shards: 2, stepUs: 250, cores: 8, rowsPerProcess: 16, why: "four equal processes in each shard" },
    { n: 26, shards: 2, stepUs: 250, cores: 8, rowsPerProcess: 13, why: "13 rows have no equal parts" },
    { n: 64, shards: 1, stepUs: 251, cores: 4, rowsPerProcess: 1, why: "not cheap" },
  ])("$n rows of $stepUs us on $cores cores: $rowsPerProcess ($why)", (given) => {
    const ranges = divideEvenly(given.n, given.shards);
    const packing = choosePacking(ranges, given.cores, measured(given.stepUs));
    expect(packing).toMatchObject({ requested: "auto", rows_per_process: given.rowsPerProcess, step_us: given.stepUs });
    expect(packing.processes).toBe(Math.ceil(given.n / given.rowsPerProcess));
    expect(ranges.every(({ first }) => first % packing.rows_per_process === 0)).toBe(true);
    expect(packing.reason).toMatch(/^a step takes \S+ us, /);
  });

  test("what is not packable or was not measured has a process each, and the reason is kept", () => {
    const ranges = divideEvenly(8, 1);
    const alone = { rows_per_process: 1, processes: 8, step_us: null };
    const unmeasured = choosePacking(ranges, 2, { stepUs: null, reason: "no action space", packable: true });
    expect(unmeasured).toMatchObject({ ...alone, reason: "a step could not be measured: no action space" });
    const unpackable = choosePacking(ranges, 2, { stepUs: null, reason: "one environment object", packable: false });
    expect(unpackable).toMatchObject({ ...alone, reason: expect.stringContaining("one environment object") });
  });

  test("a number that was asked for is taken", () => {
    expect(fixedPacking(4, 10)).toEqual({
      requested: 4,
      rows_per_process: 4,
      processes: 3,
      step_us: null,
      reason: "asked for",
    });
  });
});
