import { fail } from "../fail.ts";
import type { BatchEncoding, EncodedBatch, StepInput } from "../worker.ts";
import { preparePayload } from "./actions.ts";
import { runBatch } from "./batches/run.ts";
import type { PoolCore } from "./core.ts";
import { checkWhole } from "./packing/whole.ts";
import { selectRows } from "./rows/select.ts";
import { deliver } from "./shards/deliver.ts";
import { stepRestarted } from "./step-restarted.ts";

/** One step of the selected rows. The path of every training step: nothing here is parsed, copied or awaited that need not be. */
export function stepPool(core: PoolCore, input: StepInput, encoding: BatchEncoding): Promise<EncodedBatch> {
  const repeated = core.turn.repeated(input.seq, input.rawBody);
  if (repeated !== null) return repeated;
  const selection = selectRows(input.where, core.all, core.plan.ranges);
  if (input.actions.count !== selection.total) throw wrongCount(input.actions.count, selection.total);
  checkWhole(core, selection, "step");
  const payload = preparePayload(input, selection);
  const { request } = core.plan;
  const isAutoreset = core.autoreset !== null;
  return runBatch(core, {
    numbered: { seq: input.seq, request: input.rawBody },
    operation: "step",
    encoding,
    columns: core.columns("step", encoding),
    selection,
    makeHead: (sequence, part, rows) =>
      `{"op":"step","seq":${sequence},"encoding":"${encoding}","rows":${rows},"offset":${part.offset},"actions":${payload.form}}`,
    bodyFor: payload.bodyFor,
    limitMs: isAutoreset
      ? core.limitMs(request.step_timeout, request.reset_timeout)
      : core.limitMs(request.step_timeout),
    episodes: isAutoreset ? 1 : 0,
    route: (shard, delivery, onResult) => {
      if (shard.unready === null || shard.running === null) deliver(shard, delivery, onResult);
      else stepRestarted(core, shard, delivery, payload, encoding, onResult);
    },
  });
}

/** The refusal of a number of actions that is not that of the rows. */
export function wrongCount(received: number, expected: number): Error {
  return fail(
    "invalid_request",
    `actions: received ${received}; ${expected} were expected, one for each selected row.`,
    {
      hint: "Pass one action for each row of the pool, or for each row that `where` selects.",
      details: { received, expected },
    },
  );
}
