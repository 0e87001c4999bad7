import { cpus } from "node:os";
import { type CreatePoolInput, fillCreateDefaults } from "@sandpool/protocol";
import { describe, expect, test } from "vitest";
import { defaultLimits } from "../../../src/pools/limits.ts";
import { planRows } from "../../../src/pools/packing/plan-rows.ts";

function plan(members: Partial<CreatePoolInput>) {
  const warnings: string[] = [];
  const request = fillCreateDefaults({ archive: "0".repeat(64), entry: "env.py", n: 1, ...members });
  const { ranges } = planRows(request, defaultLimits, warnings);
  expect(ranges.reduce((sum, { count }) => sum + count, 0)).toBe(request.n);
  return { shards: ranges.length, warnings };
}

const aCore = (n: number) => Math.min(cpus().length, Math.max(1, Math.floor(n / 64)));

describe("shards, chosen", () => {
  test.each([
    { n: 1 },
    { n: 128 },
    { n: 1024 },
    { n: 65_536, envs_per_process: 64 },
    { n: 1024, envs_per_process: "auto" },
  ] as const)("a pool whose rows can be copied and have up to 1,024 processes is one sandbox: %o", (members) => {
    expect(plan(members)).toEqual({ shards: 1, warnings: [] });
  });

  test.each([
    { n: 1025, processes: "1025 processes" },
    { n: 2050, envs_per_process: 2, processes: "1025 processes" },
    { n: 1025, envs_per_process: "auto", processes: "up to 1025 processes" },
  ] as const)("one with more is divided over the cores, and warns that copies cannot cross: %o", (given) => {
    const { processes, ...members } = given;
    const { shards, warnings } = plan(members);
    expect(shards).toBe(aCore(given.n));
    if (shards === 1) return expect(warnings).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining(`(${processes} are more than the 1024 `)]);
    expect(warnings[0]).toMatch(/^shards: .* divided over \d+ sandboxes, .* pass shards=1 /);
  });

  test.each([{ n: 127 }, { n: 128 }, { n: 5000 }])(
    "one that copies nothing is divided over the cores without a word: %o",
    ({ n }) => {
      expect(plan({ n, branching: false })).toEqual({ shards: aCore(n), warnings: [] });
    },
  );

  test("a number that was asked for is taken, also where rows can be copied", () => {
    expect(plan({ n: 4, shards: 2 })).toEqual({ shards: 2, warnings: [] });
    expect(plan({ n: 5000, shards: 1 })).toEqual({ shards: 1, warnings: [] });
  });
});
