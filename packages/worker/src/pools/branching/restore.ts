import type { RestoreRequest } from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch } from "../../worker.ts";
import type { PoolCore } from "../core.ts";
import type { Shard } from "../shards/shard.ts";
import { holdCopies } from "./hold.ts";
import { findUncopied } from "./known-blockers.ts";
import { checkRows, groupPairs, reseedsOf, shardOfRow } from "./pairs.ts";
import { refuseSources } from "./refuse.ts";
import { settleRows } from "./settle.ts";
import type { StateRecord } from "./states.ts";
import { takeTurn, unchanged } from "./take-turn.ts";

/**
 * Makes target rows live copies of saved states, or changes nothing. The reply is a reset's of the targets, with `reseeded`.
 * @throws `invalid_request`, `state_not_found`, `state_lost`, `fork_unsupported`
 */
export function restorePool(
  core: PoolCore,
  request: RestoreRequest,
  rawBody: Buffer,
  encoding: BatchEncoding,
): Promise<EncodedBatch> {
  const repeated = core.turn.repeated(request.seq, rawBody);
  if (repeated !== null) return repeated;
  const startedMs = performance.now();
  const targets = request.pairs.map(([, target]) => target);
  checkRows(core, targets, "target");
  const seeds = reseedsOf(request.reseed, targets, core.plan.request.n);
  const states = core.states.find(request.pairs.map(([id]) => id));
  const pairs = states.map(({ shard, slot }, at) => ({
    shard,
    pair: { source: slot, target: targets[at] as number, seed: seeds?.[at] ?? null },
  }));
  const uncopied = findUncopied(
    core,
    states.map(({ id, shard }, at) => ({ source: { state: id }, shard, to: shardOfRow(core, targets[at] as number) })),
  );
  if (uncopied.length > 0) throw refuseSources(uncopied);
  const stateOf = (shard: Shard, slot: number): StateRecord | undefined =>
    states.find((state) => state.shard === shard && state.slot === slot);
  const branch = { kind: "restore" as const, parts: groupPairs(pairs), isDerived: request.reseed === true, stateOf };
  return takeTurn(core, { seq: request.seq, request: rawBody }, async (hold) => {
    const held = await unchanged(holdCopies(core, branch));
    return settleRows(core, held, { seq: request.seq, encoding, startedMs, hold });
  });
}
