import type { ForkRequest } from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch } from "../../worker.ts";
import type { PoolCore } from "../core.ts";
import { holdCopies } from "./hold.ts";
import { findUncopied } from "./known-blockers.ts";
import { checkRows, groupPairs, reseedsOf, shardOfRow } from "./pairs.ts";
import { refuseSources } from "./refuse.ts";
import { settleRows } from "./settle.ts";
import { takeTurn, unchanged } from "./take-turn.ts";

/**
 * Makes target rows live copies of source rows, all at one instant, or changes nothing. The reply is a reset's of the targets, with `reseeded`.
 * @throws `invalid_request`, `fork_unsupported`
 */
export function forkPool(
  core: PoolCore,
  request: ForkRequest,
  rawBody: Buffer,
  encoding: BatchEncoding,
): Promise<EncodedBatch> {
  const repeated = core.turn.repeated(request.seq, rawBody);
  if (repeated !== null) return repeated;
  const startedMs = performance.now();
  const [sources, targets] = [0, 1].map((at) => request.pairs.map((pair) => pair[at] as number)) as [
    number[],
    number[],
  ];
  checkRows(core, sources, "source");
  checkRows(core, targets, "target");
  const seeds = reseedsOf(request.reseed, targets, core.plan.request.n);
  const pairs = request.pairs.map(([source, target], at) => ({
    shard: shardOfRow(core, source),
    pair: { source, target, seed: seeds?.[at] ?? null },
  }));
  const uncopied = findUncopied(
    core,
    pairs.map(({ shard, pair }) => ({ source: { row: pair.source }, shard, to: shardOfRow(core, pair.target) })),
  );
  if (uncopied.length > 0) throw refuseSources(uncopied);
  const branch = { kind: "fork" as const, parts: groupPairs(pairs), isDerived: request.reseed === true };
  return takeTurn(core, { seq: request.seq, request: rawBody }, async (hold) => {
    const held = await unchanged(holdCopies(core, { ...branch, stateOf: () => undefined }));
    return settleRows(core, held, { seq: request.seq, encoding, startedMs, hold });
  });
}
