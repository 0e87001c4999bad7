import { SandpoolError } from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch } from "../../worker.ts";
import type { PoolCore } from "../core.ts";
import { poolGone } from "../gone.ts";
import type { Selection, ShardSelection } from "../rows/select.ts";
import { type Delivery, deliver, type OnResult } from "../shards/deliver.ts";
import type { Shard } from "../shards/shard.ts";
import type { BatchOperation, Column } from "./columns.ts";
import { ReplyHold } from "./hold.ts";
import { joinResults } from "./join.ts";
import type { ShardResult } from "./result.ts";
import { tellNext } from "./tell-next.ts";

export interface BatchRun {
  /** Null for observations. */
  numbered: { seq: number; request: Buffer } | null;
  operation: BatchOperation;
  encoding: BatchEncoding;
  columns: readonly Column[];
  selection: Selection;
  makeHead: Delivery["makeHead"];
  bodyFor: (part: ShardSelection) => Buffer | null;
  limitMs: number;
  episodes: number;
  /** How a part reaches its shard; `deliver` unless the operation has rules of its own. */
  route?: (shard: Shard, delivery: Delivery, onResult: OnResult) => void;
}

/**
 * Fans a batch out to its shards, one request each, and joins what comes back. It ends when every shard has answered or died, so the next
 * batch never meets the rest of this one.
 */
export function runBatch(core: PoolCore, run: BatchRun): Promise<EncodedBatch> {
  const startedMs = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<EncodedBatch>();
  const { parts } = run.selection;
  const results: ShardResult[] = new Array(parts.length);
  let missing = parts.length;
  let failure: Error | null = null;
  let refusals = 0;
  const hold = new ReplyHold();
  hold.add();
  if (run.numbered !== null) core.turn.begin(run.numbered.seq, run.numbered.request, promise, hold);

  const told = (error: unknown): unknown =>
    run.numbered === null ? error : tellNext(error, run.numbered.seq, core.turn.nextSeq);
  const finish = (): void => {
    core.lastUsedMs = Date.now();
    if (run.numbered !== null) settle(core, refusals > 0 && refusals === parts.length);
    if (core.closing.aborted) failure = poolGone(core.plan.id, core.closeReason);
    if (failure !== null) {
      reject(told(failure));
      return;
    }
    try {
      const joined = joinResults(run.numbered?.seq ?? null, run.encoding, run.columns, results, startedMs);
      for (const { release } of results) if (release !== undefined) hold.whenFree(release);
      resolve({ ...joined, release: () => hold.release() });
    } catch (error) {
      reject(told(error));
    }
  };

  if (missing === 0) finish();
  const route = run.route ?? deliver;
  for (let index = 0; index < parts.length; index += 1) {
    const part = parts[index] as ShardSelection;
    const onResult: OnResult = (result) => {
      if (isRefusal(result)) refusals += 1;
      if (result instanceof Error) failure ??= result;
      else results[index] = result;
      missing -= 1;
      if (missing === 0) finish();
    };
    try {
      route(core.shards[part.shard] as Shard, makeDelivery(run, part), onResult);
    } catch (error) {
      onResult(error as Error);
    }
  }
  return promise;
}

/** An agent refuses a request before it sends anything to a row. */
function isRefusal(result: ShardResult | Error): boolean {
  return result instanceof SandpoolError && result.code === "invalid_request";
}

function settle(core: PoolCore, isRefused: boolean): void {
  if (isRefused) core.turn.refused();
  else core.turn.settled();
}

function makeDelivery(run: BatchRun, part: ShardSelection): Delivery {
  const { operation, columns, makeHead, limitMs, episodes } = run;
  return { operation, columns, part, makeHead, body: run.bodyFor(part), limitMs, episodes };
}
