import type { Reseed } from "@sandpool/protocol";
import { fail } from "../../fail.ts";
import type { PoolCore } from "../core.ts";
import type { Shard } from "../shards/shard.ts";

/** What one shard copies: `source` and `target` are rows, or slots of states; ascending by target. */
export interface BranchPart {
  shard: Shard;
  pairs: readonly BranchPair[];
}

export interface BranchPair {
  source: number;
  target: number;
  /** What the copy is reseeded with; null: it is exact, or gets a derived seed. */
  seed: number | null;
}

/** The shard that has a row. */
export function shardOfRow(core: PoolCore, row: number): Shard {
  return core.shards.find(({ range }) => row < range.first + range.count) as Shard;
}

/** Checks the rows of a request: in range, and each target once. @throws `invalid_request` */
export function checkRows(core: PoolCore, rows: readonly number[], what: "source" | "target"): void {
  const { n } = core.plan.request;
  const seen = new Set<number>();
  for (const row of rows) {
    if (row >= n) {
      throw fail("invalid_request", `pairs: received the ${what} ${row}; expected a row from 0 to ${n - 1}.`);
    }
    if (what === "target" && seen.has(row)) {
      throw fail("invalid_request", `pairs: received the target ${row} twice; expected each target once.`, {
        hint: "A source may stand in many pairs; a row can become a copy of one source only.",
        details: { received: row },
      });
    }
    seen.add(row);
  }
}

/** One seed a pair in the order of the request; null for exact copies. A derived one (`true`) is the agents' to make. @throws `invalid_request` */
export function reseedsOf(
  reseed: Reseed | undefined,
  targets: readonly number[],
  n: number,
): readonly (number | null)[] | null {
  if (reseed === undefined || reseed === null || reseed === true) return null;
  if (typeof reseed === "number") {
    if (reseed + n - 1 > Number.MAX_SAFE_INTEGER) {
      throw fail(
        "invalid_request",
        `reseed: received ${reseed}; target i gets reseed + i, and the last would pass 2^53 - 1.`,
      );
    }
    return targets.map((target) => reseed + target);
  }
  if (reseed.length === targets.length) return reseed;
  throw fail(
    "invalid_request",
    `reseed: received a list of ${reseed.length}; ${targets.length} were expected, one for each pair.`,
    {
      hint: "Pass true, an integer, null, or a list with one item for each pair (null: an exact copy).",
      details: { received: reseed.length, expected: targets.length },
    },
  );
}

/** Pairs by shard, in the order of the shards, each shard's by target. */
export function groupPairs(pairs: readonly { shard: Shard; pair: BranchPair }[]): BranchPart[] {
  const groups = new Map<Shard, BranchPair[]>();
  for (const { shard, pair } of pairs) {
    const group = groups.get(shard);
    if (group === undefined) groups.set(shard, [pair]);
    else group.push(pair);
  }
  return [...groups]
    .map(([shard, group]) => ({ shard, pairs: group.sort((a, b) => a.target - b.target) }))
    .sort((a, b) => a.shard.index - b.shard.index);
}
