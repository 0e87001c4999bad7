import type { ResetRequest } from "@sandpool/protocol";
import { fail } from "../fail.ts";
import type { BatchEncoding, EncodedBatch } from "../worker.ts";
import { runBatch } from "./batches/run.ts";
import type { PoolCore } from "./core.ts";
import { checkOptions, checkSeeds, checkWhole } from "./packing/whole.ts";
import { pickElements } from "./rows/raw-json.ts";
import { rowsOf, type Selection, selectRows } from "./rows/select.ts";
import { whenRestarted } from "./shards/await-restart.ts";
import { type Delivery, deliver, failRows, type OnResult } from "./shards/deliver.ts";
import { stillStarting } from "./shards/failure.ts";
import { markReady, type Shard } from "./shards/shard.ts";

type Seeds = readonly (number | null)[] | null;

/** Resets the selected rows; the others are not touched. Rules: pool-semantics.md, Seeds and Reset. */
export function resetPool(
  core: PoolCore,
  request: ResetRequest,
  rawBody: Buffer,
  encoding: BatchEncoding,
): Promise<EncodedBatch> {
  const repeated = core.turn.repeated(request.seq, rawBody);
  if (repeated !== null) return repeated;
  const selection = selectRows(request.where ?? null, core.all, core.plan.ranges);
  const hard = request.hard === true;
  checkWhole(core, selection, "reset", hard);
  checkOptions(core, selection, request.options);
  const seeds = seedsOf(request.seed ?? null, selection, core.plan.ranges, core.plan.request.n);
  checkSeeds(core, selection, seeds);
  const body = optionsBody(request.options, rawBody, selection, core);
  const isNewPoolSeed = selection.full && typeof request.seed === "number";
  if (isNewPoolSeed) core.seed = request.seed as number;
  const poolSeed = isNewPoolSeed ? `,"seed":${core.seed}` : "";
  const { start_timeout, reset_timeout } = core.plan.request;
  return runBatch(core, {
    numbered: { seq: request.seq, request: rawBody },
    operation: "reset",
    encoding,
    columns: core.columns("reset", encoding),
    selection,
    makeHead: (sequence, part, rows) => {
      const own = seeds === null ? "null" : JSON.stringify(seeds.slice(part.offset, part.offset + part.count));
      return `{"op":"reset","seq":${sequence},"encoding":"${encoding}","rows":${rows},"seeds":${own},"hard":${hard}${poolSeed},"offset":${part.offset},"total":${selection.total}}`;
    },
    bodyFor: () => body,
    limitMs: core.limitMs(start_timeout, reset_timeout),
    episodes: 1,
    route: (shard, delivery, onResult) => {
      if (isNewPoolSeed) shard.episodes = 0;
      if (shard.running === null) resetDown(shard, delivery, hard, start_timeout * 1000, onResult);
      else sendReset(shard, delivery, onResult);
    },
  });
}

function sendReset(shard: Shard, delivery: Delivery, onResult: OnResult): void {
  const { running } = shard;
  deliver(shard, delivery, (result) => {
    if (!(result instanceof Error) && shard.running === running) markReady(shard, rowsOf(delivery.part, shard.range));
    onResult(result);
  });
}

/** A reset of a shard that is down waits for its restart; a hard one starts it again even when that was given up. */
function resetDown(shard: Shard, delivery: Delivery, hard: boolean, limitMs: number, onResult: OnResult): void {
  whenRestarted(shard, hard, limitMs, () => {
    if (shard.running !== null) sendReset(shard, delivery, onResult);
    else onResult(failRows(shard, delivery, shard.failure ?? stillStarting(shard.range)));
  });
}

/** A seed for each selected row in index order: `s + row`, the list's item, or null for the pool's rule. A list is in the order of `where`. */
export function seedsOf(
  seed: ResetRequest["seed"] | null,
  selection: Selection,
  ranges: PoolCore["plan"]["ranges"],
  n: number,
): Seeds {
  if (seed === null || seed === undefined) return null;
  const rows = selection.parts.flatMap((part) => [
    ...rowsOf(part, ranges[part.shard] as { first: number; count: number }),
  ]);
  if (typeof seed === "number") {
    if (seed + n - 1 > Number.MAX_SAFE_INTEGER) {
      throw fail("invalid_request", `seed: received ${seed}; row i gets seed + i, and the last would pass 2^53 - 1.`);
    }
    return rows.map((row) => seed + row);
  }
  if (seed.length === selection.total) {
    return rows.map((_, position) => seed[selection.order?.[position] ?? position] ?? null);
  }
  if (seed.length === n) return rows.map((row) => seed[row] ?? null);
  throw fail(
    "invalid_request",
    `seed: received a list of ${seed.length}; ${n} were expected, one for each row of the pool.`,
    {
      hint: "Pass an integer, null, a list of n (null where the pool's rule shall decide), or one seed for each selected row.",
      details: { received: seed.length, expected: n },
    },
  );
}

/** The request with `options`, where they are a list, reduced to the selected rows in index order. */
export function optionsBody(options: unknown, rawBody: Buffer, selection: Selection, core: PoolCore): Buffer {
  if (options === undefined) return Buffer.from('{"options":null}');
  if (!Array.isArray(options)) return rawBody;
  const { n } = core.plan.request;
  if (options.length === selection.total) {
    return selection.order === null ? rawBody : pickElements(rawBody, "options", selection.order);
  }
  if (options.length === n) {
    const rows = selection.parts.flatMap((part) => [
      ...rowsOf(part, core.plan.ranges[part.shard] as { first: number; count: number }),
    ]);
    return pickElements(rawBody, "options", rows);
  }
  throw fail(
    "invalid_request",
    `options: received a list of ${options.length}; ${selection.total} were expected, one for each selected row.`,
    {
      hint: "Pass one dict for all rows, or a list with one item for each selected row.",
      details: { received: options.length, expected: selection.total },
    },
  );
}
