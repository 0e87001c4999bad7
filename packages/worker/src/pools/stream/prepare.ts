import type { BatchEncoding } from "../../worker.ts";
import { preparePayload } from "../actions.ts";
import type { PoolCore } from "../core.ts";
import { checkOptions, checkSeeds, checkWhole } from "../packing/whole.ts";
import { optionsBody, seedsOf } from "../reset.ts";
import { type Selection, type ShardSelection, selectRows } from "../rows/select.ts";
import { wrongCount } from "../step.ts";
import type { StreamRequest, StreamResetRequest, StreamStepRequest } from "./contract.ts";
import type { StreamOperation } from "./rows-out.ts";

/** A message after its checks, ready for the shards that hold its rows. */
export interface Work {
  op: StreamOperation;
  selection: Selection;
  hard: boolean;
  /** A full reset with a whole number: it becomes the pool's seed, and the episodes start anew. */
  isNewPoolSeed: boolean;
  /** How long an agent may take before it is given up. */
  limitMs: number;
  /** How many episodes each row may begin in it. */
  episodes: number;
  whole(part: ShardSelection): AgentMessage;
  /** A step of some of a part's rows; `positions` is where they stand among all selected ones. */
  some(rows: readonly number[], positions: readonly number[]): AgentMessage;
}

export interface AgentMessage {
  head: string;
  body: Buffer;
}

/** Checks a message against the pool, as a batch of the same kind is. @throws `invalid_request`, `vectorized_unsupported` */
export function prepareWork(core: PoolCore, request: StreamRequest, encoding: BatchEncoding): Work {
  return request.op === "step" ? prepareStep(core, request, encoding) : prepareReset(core, request, encoding);
}

function prepareStep(core: PoolCore, request: StreamStepRequest, encoding: BatchEncoding): Work {
  const selection = selectRows(request.where, core.all, core.plan.ranges);
  if (request.actions.count !== selection.total) throw wrongCount(request.actions.count, selection.total);
  checkWhole(core, selection, "step");
  const payload = preparePayload(request, selection);
  const { step_timeout, reset_timeout } = core.plan.request;
  const isAutoreset = core.autoreset !== null;
  const head = (rows: readonly number[] | null, offset: number, total: number): string =>
    `{"op":"send","kind":"step","encoding":"${encoding}","rows":${listed(rows)},"offset":${offset},"total":${total},"actions":${payload.form}}`;
  return {
    op: "step",
    selection,
    hard: false,
    isNewPoolSeed: false,
    limitMs: limitMs(core, isAutoreset ? [step_timeout, reset_timeout] : [step_timeout]),
    episodes: isAutoreset ? 1 : 0,
    whole: (part) => ({ head: head(part.rows, part.offset, selection.total), body: payload.bodyFor(part) }),
    some: (rows, positions) => ({ head: head(rows, 0, rows.length), body: payload.subset(positions) }),
  };
}

function prepareReset(core: PoolCore, request: StreamResetRequest, encoding: BatchEncoding): Work {
  const { hard } = request;
  const { ranges, request: pool } = core.plan;
  const selection = selectRows(request.where, core.all, ranges);
  checkWhole(core, selection, "reset", hard);
  checkOptions(core, selection, request.options);
  const seeds = seedsOf(request.seed, selection, ranges, pool.n);
  checkSeeds(core, selection, seeds);
  const body = optionsBody(request.options, request.rawBody, selection, core);
  const isNewPoolSeed = selection.full && typeof request.seed === "number";
  const poolSeed = isNewPoolSeed ? `,"seed":${String(request.seed)}` : "";
  const whole = (part: ShardSelection): AgentMessage => {
    const own = seeds === null ? "null" : JSON.stringify(seeds.slice(part.offset, part.offset + part.count));
    const head = `{"op":"send","kind":"reset","encoding":"${encoding}","rows":${listed(part.rows)},"seeds":${own},"hard":${hard}${poolSeed},"offset":${part.offset},"total":${selection.total}}`;
    return { head, body };
  };
  return {
    op: "reset",
    selection,
    hard,
    isNewPoolSeed,
    limitMs: limitMs(core, [pool.start_timeout, pool.reset_timeout]),
    episodes: 1,
    whole,
    some: (rows) => pendingReset(rows, encoding),
  };
}

/** What a row is sent whose step is its autoreset mode's pending reset. */
export function pendingReset(rows: readonly number[], encoding: BatchEncoding): AgentMessage {
  const head = `{"op":"send","kind":"reset","encoding":"${encoding}","rows":${listed(rows)},"seeds":null,"hard":false,"offset":0,"total":${rows.length}}`;
  return { head, body: Buffer.from('{"options":null}') };
}

/** Twice a batch's: rows may first wait for what their process, or others `in_flight`, have from the message before. */
function limitMs(core: PoolCore, deadlinesS: readonly number[]): number {
  return core.limitMs(...deadlinesS, ...deadlinesS);
}

function listed(rows: readonly number[] | null): string {
  return rows === null ? "null" : `[${rows.join(",")}]`;
}
