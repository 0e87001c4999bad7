import type { BatchEncoding, EncodedBatch } from "../../worker.ts";
import type { ReplyHold } from "../batches/hold.ts";
import { joinResults } from "../batches/join.ts";
import type { ShardResult } from "../batches/result.ts";
import type { PoolCore } from "../core.ts";
import type { ShardSelection } from "../rows/select.ts";
import { type Delivery, deliver } from "../shards/deliver.ts";
import { markReady } from "../shards/shard.ts";
import { branchLimitMs, type HeldPart, letGo } from "./hold.ts";

/**
 * The second phase of fork and restore: the held copies take their places. Rows of a sandbox that ended meanwhile fail with it.
 * @throws `agent_failed` where an agent answers with a fault
 */
export async function settleRows(
  core: PoolCore,
  held: readonly HeldPart[],
  reply: { seq: number; encoding: BatchEncoding; startedMs: number; hold: ReplyHold },
): Promise<EncodedBatch> {
  const { seq, encoding, startedMs, hold } = reply;
  const outcomes = await Promise.all(held.map((part) => settlePart(core, part, encoding)));
  const failure = outcomes.find((outcome) => outcome instanceof Error);
  if (failure !== undefined) throw failure;
  const results = outcomes as ShardResult[];
  for (const { release } of results) if (release !== undefined) hold.whenFree(release);
  return joinResults(seq, encoding, core.columns("reset", encoding), results, startedMs);
}

function settlePart(core: PoolCore, part: HeldPart, encoding: BatchEncoding): Promise<ShardResult | Error> {
  const { shard, running } = part;
  const targets = part.pairs.map(({ target }) => target);
  const selection: ShardSelection = { shard: shard.index, rows: targets, offset: 0, count: targets.length };
  const delivery: Delivery = {
    operation: "reset",
    columns: core.columns("reset", encoding),
    part: selection,
    makeHead: (sequence) => `{"op":"settle","seq":${sequence},"encoding":"${encoding}"}`,
    body: null,
    limitMs: branchLimitMs(core),
    episodes: 0,
  };
  return new Promise((resolve) => {
    deliver(shard, delivery, (result) => {
      if (result instanceof Error) {
        void letGo(core, part).then(() => resolve(result));
        return;
      }
      if (shard.running === running) markReady(shard, targets);
      resolve(withReseeded(result, targets));
    });
  });
}

/** What was reseeded in each target, and a word where nothing could be. */
function withReseeded(result: ShardResult, targets: readonly number[]): ShardResult {
  const reseeded = result.reseeded ?? targets.map(() => null);
  const unchanged = targets.filter((_, at) => reseeded[at]?.length === 0);
  if (unchanged.length === 0) return { ...result, reseeded };
  const rows = unchanged.length === 1 ? `row ${unchanged[0]}` : `rows ${unchanged.slice(0, 8).join(", ")}`;
  const more = unchanged.length > 8 ? ` and ${unchanged.length - 8} more` : "";
  const warning = `reseed: nothing could be reseeded in ${rows}${more}, which are exact copies; serve(reseed=…) names what to reseed`;
  return { ...result, reseeded, warnings: [...result.warnings, warning] };
}
