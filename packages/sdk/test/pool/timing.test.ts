import { expect, test } from "vitest";
import { PoolTiming, percentiles } from "../../src/index.ts";

test("percentiles lie between the two nearest samples, as numpy's do", () => {
  // 95 % of the way through 0..4 is place 3.8: between 30 and 100.
  const { p50, p95, p99 } = percentiles([100, 10, 20, 0, 30]);
  expect(p50).toBe(20);
  expect(p95).toBeCloseTo(30 + 0.8 * 70, 10);
  expect(p99).toBeCloseTo(30 + 0.96 * 70, 10);
  expect(percentiles([7])).toEqual({ p50: 7, p95: 7, p99: 7 });
  expect(percentiles([])).toEqual({ p50: Number.NaN, p95: Number.NaN, p99: Number.NaN });
});

test("a summary is over the last 10,000 batches and counts every straggler", () => {
  const timing = new PoolTiming();
  for (let batch = 0; batch < 10_001; batch += 1) {
    timing.record({ workerMs: batch, slowestMs: 1, slowestRow: 0, stragglers: batch === 0 ? [3, 4] : [] }, 2 * batch);
  }
  const { batches, stragglersTotal, workerMs, roundtripMs } = timing.summary();
  expect([batches, stragglersTotal, workerMs.p50, roundtripMs.p50]).toEqual([10_000, 2, 5000.5, 10_001]);
  expect([timing.workerMs, timing.roundtripMs, timing.stragglers]).toEqual([10_000, 20_000, []]);
});
