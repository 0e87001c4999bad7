import type { BatchEncoding } from "../worker.ts";
import type { ActionPayload } from "./actions.ts";
import { mergeResults, type PartialResult } from "./batches/merge.ts";
import type { ShardResult } from "./batches/result.ts";
import type { PoolCore } from "./core.ts";
import { rowsOf, type ShardSelection } from "./rows/select.ts";
import { type Delivery, deliver, failRows, type OnResult } from "./shards/deliver.ts";
import { asStepResult, type ShardFailure } from "./shards/failure.ts";
import { markReady, type Shard } from "./shards/shard.ts";
import { splitRestarted } from "./shards/split-restarted.ts";

/**
 * A step of a shard that was started again: rows that were reset since are stepped. The others still hold their error, or, in an autoreset
 * mode and once a reply has told it, are reset now: that is the mode's pending reset.
 */
export function stepRestarted(
  core: PoolCore,
  shard: Shard,
  step: Delivery,
  payload: ActionPayload,
  encoding: BatchEncoding,
  onResult: OnResult,
): void {
  const selected = rowsOf(step.part, shard.range);
  const { failing, pending, ready } = splitRestarted(core, shard, selected);
  if (ready.length === selected.length) {
    deliver(shard, step, onResult);
    return;
  }
  const partOf = (rows: readonly number[]): ShardSelection => ({
    shard: step.part.shard,
    rows,
    offset: 0,
    count: rows.length,
  });

  const answered: PartialResult[] = [];
  const answer = (rows: readonly number[], result: ShardResult): void => {
    if (rows.length > 0) answered.push({ rows, result });
  };
  const stepReady = (): void => {
    if (ready.length === 0) {
      onResult(mergeResults(answered, step.columns));
      return;
    }
    const positions = ready.map((row) => step.part.offset + selected.indexOf(row));
    deliver(shard, { ...step, part: partOf(ready), body: payload.subset(positions) }, (result) => {
      if (result instanceof Error) onResult(result);
      else {
        answer(ready, result);
        onResult(mergeResults(answered, step.columns));
      }
    });
  };

  answer(failing, failRows(shard, { ...step, part: partOf(failing) }, shard.failure as ShardFailure));
  if (pending.length === 0) {
    stepReady();
    return;
  }
  const columns = core.columns("reset", encoding);
  const head = `"encoding":"${encoding}","seeds":null,"hard":false,"offset":0,"total":${pending.length}`;
  const reset: Delivery = {
    ...step,
    operation: "reset",
    columns,
    part: partOf(pending),
    body: Buffer.from('{"options":null}'),
    makeHead: (sequence, _part, rows) => `{"op":"reset","seq":${sequence},"rows":${rows},${head}}`,
  };
  deliver(shard, reset, (result) => {
    if (result instanceof Error) {
      onResult(result);
      return;
    }
    markReady(shard, pending);
    answer(pending, asStepResult(result, columns, step.columns));
    stepReady();
  });
}
