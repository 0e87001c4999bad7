import type { CallRequest } from "@sandpool/protocol";
import { fail } from "../fail.ts";
import type { BatchEncoding, EncodedBatch } from "../worker.ts";
import { runBatch } from "./batches/run.ts";
import type { PoolCore } from "./core.ts";
import { pickElements } from "./rows/raw-json.ts";
import { selectRows } from "./rows/select.ts";

/** Calls a method, or reads or sets an attribute, of the selected environments. */
export function callPool(
  core: PoolCore,
  request: CallRequest,
  rawBody: Buffer,
  encoding: BatchEncoding,
): Promise<EncodedBatch> {
  const repeated = core.turn.repeated(request.seq, rawBody);
  if (repeated !== null) return repeated;
  const selection = selectRows(request.where ?? null, core.all, core.plan.ranges);
  const isPerRow = request.per_row === true;
  if (isPerRow && (!Array.isArray(request.values) || request.values.length !== selection.total)) {
    const received = Array.isArray(request.values) ? `a list of ${request.values.length}` : typeof request.values;
    throw fail(
      "invalid_request",
      `values: received ${received}; a list of ${selection.total} was expected, one for each selected row.`,
    );
  }
  const body = isPerRow && selection.order !== null ? pickElements(rawBody, "values", selection.order) : rawBody;
  const timeoutS = request.timeout ?? core.plan.request.call_timeout;
  const fixed = JSON.stringify({
    deadline_ms: Math.ceil(timeoutS * 1000),
    call: request.call ?? "call",
    name: request.name,
    ...(isPerRow ? { per_row: true } : {}),
  }).slice(1);
  return runBatch(core, {
    numbered: { seq: request.seq, request: rawBody },
    operation: "call",
    encoding,
    columns: core.columns("call", encoding),
    selection,
    makeHead: (sequence, part, rows) =>
      `{"op":"call","seq":${sequence},"encoding":"${encoding}","rows":${rows},"offset":${part.offset},"total":${selection.total},${fixed}`,
    bodyFor: () => body,
    limitMs: core.limitMs(timeoutS),
    episodes: 0,
  });
}
