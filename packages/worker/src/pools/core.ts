import { setMaxListeners } from "node:events";
import type { AutoresetMode, Layout, Packing, Vector } from "@sandpool/protocol";
import type { BatchEncoding } from "../worker.ts";
import { type BatchOperation, type Column, columnsOf } from "./batches/columns.ts";
import { Turn } from "./batches/turn.ts";
import { States } from "./branching/states.ts";
import type { CloseReason } from "./gone.ts";
import type { PoolPlan } from "./plan.ts";
import { type Selection, selectAll } from "./rows/select.ts";
import type { Shard, ShardHome } from "./shards/shard.ts";
import { PoolStream } from "./stream/stream.ts";

/** What the first start of a pool settled for good. */
export interface PoolForm {
  layout: Layout;
  packing: Packing;
  vector: Vector | null;
  autoreset: AutoresetMode;
}

/** The state that a pool's operations share. */
export class PoolCore implements ShardHome {
  readonly plan: PoolPlan;
  readonly layout: Layout;
  readonly packing: Packing;
  /** What its environments' class can do where they are vectorised. */
  readonly vector: Vector | null;
  readonly autoreset: AutoresetMode;
  readonly turn = new Turn();
  readonly stream: PoolStream = new PoolStream(this);
  readonly states = new States();
  readonly all: Selection;
  readonly abort = new AbortController();
  shards: readonly Shard[] = [];
  closeReason: CloseReason | null = null;
  seed: number;
  /** Of the last request, by the wall clock: what the lease counts from. */
  lastUsedMs = Date.now();
  readonly #columns = new Map<string, Column[]>();

  constructor(plan: PoolPlan, form: PoolForm, seed: number) {
    this.plan = plan;
    this.layout = form.layout;
    this.packing = form.packing;
    this.vector = form.vector;
    this.autoreset = form.autoreset;
    this.seed = seed;
    this.all = selectAll(plan.ranges);
    setMaxListeners(0, this.abort.signal);
  }

  get closing(): AbortSignal {
    return this.abort.signal;
  }

  columns(operation: BatchOperation, encoding: BatchEncoding): Column[] {
    const key = `${operation} ${encoding}`;
    let columns = this.#columns.get(key);
    if (columns === undefined) {
      columns = columnsOf(operation, encoding, this.layout);
      this.#columns.set(key, columns);
    }
    return columns;
  }

  /** How long the agents may take for a batch of these deadlines before they are given up. */
  limitMs(...deadlinesS: number[]): number {
    const inFlight = this.plan.request.in_flight;
    const most = this.plan.ranges[0]?.count ?? 1;
    const waves = inFlight === null ? 1 : Math.ceil(most / inFlight);
    return deadlinesS.reduce((sum, deadlineS) => sum + deadlineS, 0) * 1000 * waves + hopelessGraceMs;
  }
}

const hopelessGraceMs = 30_000;
