import type { BatchEncoding } from "../worker.ts";
import type { ActionPayload } from "./actions.ts";
import { mergeResults, type PartialResult } from "./batches/merge.ts";
import type { PoolCore } from "./core.ts";
import { rowsOf } from "./rows/select.ts";
import { type Delivery, deliver, failRows, type OnResult } from "./shards/deliver.ts";
import { asStepResult, type ShardFailure } from "./shards/failure.ts";
import { markReady, type Shard } from "./shards/shard.ts";

/**
 * A step of a shard that was started again: rows that were reset since are stepped. The others still hold their error, or, in an autoreset
 * mode, are reset now: that is the mode's pending reset.
 */
export function stepRestarted(
  core: PoolCore,
  shard: Shard,
  step: Delivery,
  payload: ActionPayload,
  encoding: BatchEncoding,
  onResult: OnResult,
): void {
  const unready = shard.unready ?? new Set<number>();
  const selected = rowsOf(step.part, shard.range);
  const waiting = selected.filter((row) => unready.has(row));
  const ready = selected.filter((row) => !unready.has(row));
  if (waiting.length === 0) {
    deliver(shard, step, onResult);
    return;
  }

  const stepReady = (waitingResult: PartialResult): void => {
    if (ready.length === 0) {
      onResult(waitingResult.result);
      return;
    }
    const positions = ready.map((row) => step.part.offset + selected.indexOf(row));
    const part = { shard: step.part.shard, rows: ready, offset: 0, count: ready.length };
    deliver(shard, { ...step, part, body: payload.subset(positions) }, (result) => {
      onResult(result instanceof Error ? result : mergeResults([waitingResult, { rows: ready, result }], step.columns));
    });
  };

  const part = { shard: step.part.shard, rows: waiting, offset: 0, count: waiting.length };
  if (core.plan.request.autoreset === null) {
    stepReady({
      rows: waiting,
      result: failRows(shard, { ...step, part }, shard.failure as ShardFailure, true),
    });
    return;
  }
  const columns = core.columns("reset", encoding);
  const head = `"encoding":"${encoding}","seeds":null,"hard":false,"offset":0,"total":${waiting.length}`;
  const reset: Delivery = {
    ...step,
    operation: "reset",
    columns,
    part,
    body: Buffer.from('{"options":null}'),
    makeHead: (sequence, _part, rows) => `{"op":"reset","seq":${sequence},"rows":${rows},${head}}`,
  };
  deliver(shard, reset, (result) => {
    if (result instanceof Error) {
      onResult(result);
      return;
    }
    markReady(shard, waiting);
    stepReady({ rows: waiting, result: asStepResult(result, columns, step.columns) });
  });
}
