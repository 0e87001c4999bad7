import type { BatchEncoding, EncodedBatch } from "../worker.ts";
import { runBatch } from "./batches/run.ts";
import type { PoolCore } from "./core.ts";
import { deliverBeside } from "./shards/deliver.ts";

/** The last good observation and reset info of every row. Answered at any moment; no environment is touched. */
export function observePool(core: PoolCore, encoding: BatchEncoding): Promise<EncodedBatch> {
  return runBatch(core, {
    numbered: null,
    operation: "observe",
    encoding,
    columns: core.columns("observe", encoding),
    selection: core.all,
    makeHead: () => `{"op":"observe","encoding":"${encoding}"}`,
    bodyFor: () => null,
    limitMs: 0,
    episodes: 0,
    route: deliverBeside,
  });
}
