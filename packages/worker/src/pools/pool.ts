import type {
  CallRequest,
  ForkRequest,
  PoolDescription,
  PoolStatus,
  ResetRequest,
  RestoreRequest,
  SaveRequest,
  StateList,
} from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch, Pool, StepInput } from "../worker.ts";
import { dropStates } from "./branching/drop.ts";
import { forkPool } from "./branching/fork.ts";
import { listStates } from "./branching/list.ts";
import { restorePool } from "./branching/restore.ts";
import { savePool } from "./branching/save.ts";
import { callPool } from "./call.ts";
import { closePool } from "./close.ts";
import type { PoolCore } from "./core.ts";
import { type DescribedStart, describePool } from "./describe.ts";
import { type CloseReason, poolGone } from "./gone.ts";
import { watchLease } from "./lease.ts";
import { rowLogs } from "./logs.ts";
import { observePool } from "./observe.ts";
import { resetPool } from "./reset.ts";
import { poolStatus } from "./status.ts";
import { stepPool } from "./step.ts";
import type { StreamConnection, StreamOptions, StreamSink } from "./stream/contract.ts";
import { watchShards } from "./watchdog.ts";

/** A running pool; each call is in a file of its own. */
export class LocalPool implements Pool {
  readonly id: string;
  readonly name: string | null;
  readonly n: number;
  readonly owner: string;
  readonly #core: PoolCore;
  readonly #start: DescribedStart;
  readonly #onClosing: (pool: LocalPool) => void;
  #state: PoolDescription["state"] = "ready";
  #closed: Promise<void> | null = null;

  constructor(core: PoolCore, start: DescribedStart, onClosing: (pool: LocalPool) => void) {
    this.id = core.plan.id;
    this.name = core.plan.request.name;
    this.n = core.plan.request.n;
    this.owner = core.plan.owner;
    this.#core = core;
    this.#start = start;
    this.#onClosing = onClosing;
    watchLease(core, () => void this.close("lease").catch(() => {}));
    watchShards(core);
  }

  get closeReason(): CloseReason | null {
    return this.#core.closeReason;
  }

  describe(): PoolDescription {
    return describePool(this.#core, this.#start, this.#state);
  }

  async status(options: { memory: boolean }): Promise<PoolStatus> {
    this.#use();
    return poolStatus(this.#core, options.memory);
  }

  step(input: StepInput, encoding: BatchEncoding): Promise<EncodedBatch> {
    return this.#batch(() => stepPool(this.#core, input, encoding));
  }

  reset(request: ResetRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    return this.#batch(() => resetPool(this.#core, request, rawBody, encoding));
  }

  call(request: CallRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    return this.#batch(() => callPool(this.#core, request, rawBody, encoding));
  }

  fork(request: ForkRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    return this.#batch(() => forkPool(this.#core, request, rawBody, encoding));
  }

  save(request: SaveRequest, rawBody: Buffer): Promise<EncodedBatch> {
    return this.#batch(() => savePool(this.#core, request, rawBody));
  }

  restore(request: RestoreRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    return this.#batch(() => restorePool(this.#core, request, rawBody, encoding));
  }

  async drop(ids: readonly string[] | null): Promise<string[]> {
    this.#use();
    return dropStates(this.#core, ids);
  }

  async states({ memory }: { memory: boolean }): Promise<StateList> {
    this.#use();
    return listStates(this.#core, memory);
  }

  observations(encoding: BatchEncoding): Promise<EncodedBatch> {
    return this.#batch(() => observePool(this.#core, encoding));
  }

  async logs(row: number): Promise<Buffer> {
    this.#use();
    return rowLogs(this.#core, row);
  }

  openStream(options: StreamOptions, sink: StreamSink): StreamConnection {
    this.#use();
    return this.#core.stream.open(options, sink);
  }

  keepAlive(): void {
    this.#use();
  }

  close(reason: CloseReason = "deleted"): Promise<void> {
    this.#core.closeReason ??= reason;
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#state = "closing";
    this.#onClosing(this);
    await closePool(this.#core);
    this.#state = "closed";
  }

  /** What is refused at once is a rejection too, so that a caller has one place to look. */
  #batch(start: () => Promise<EncodedBatch>): Promise<EncodedBatch> {
    try {
      this.#use();
      return start();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #use(): void {
    if (this.#closed !== null) throw poolGone(this.id, this.closeReason);
    this.#core.lastUsedMs = Date.now();
  }
}
