import { type CreateEvent, type CreatePoolRequest, SandpoolError } from "@sandpool/protocol";
import type { Pool, Worker } from "@sandpool/worker";
import { serverClosing } from "../http/serverClosing.ts";
import type { Identity } from "../keys/keyring.ts";
import type { OperationJournal } from "../store/operations.ts";
import type { PoolCatalog } from "./catalog.ts";
import { hashRequest, type IdempotencyRecords, requireSameRequest } from "./idempotency.ts";

type Progress = Extract<CreateEvent, { event: "progress" }>;
type ProgressListener = (progress: Progress) => void;

export interface CreateInput {
  caller: Identity;
  request: CreatePoolRequest;
  rawBody: Buffer;
  idempotencyKey: string | null;
}

/** A creation under way; several requests with one Idempotency-Key share it. */
export interface Creation {
  readonly operationId: string;
  readonly pool: Promise<Pool>;
  onProgress(listener: ProgressListener): void;
  /** The caller went away: rolls back, unless an Idempotency-Key lets it come back. */
  abandon(): void;
}

interface SharedCreation {
  creation: Promise<Creation>;
  requestHash: string;
}

/** Creates pools: journalled, rolled back whole, once per Idempotency-Key. */
export class PoolCreator {
  readonly #worker: Worker;
  readonly #catalog: PoolCatalog;
  readonly #journal: OperationJournal;
  readonly #records: IdempotencyRecords;
  readonly #shared = new Map<string, SharedCreation>();
  readonly #running = new Map<AbortController, Promise<unknown>>();

  constructor(worker: Worker, catalog: PoolCatalog, journal: OperationJournal, records: IdempotencyRecords) {
    this.#worker = worker;
    this.#catalog = catalog;
    this.#journal = journal;
    this.#records = records;
  }

  /** Starts a creation, joins the one with the same key, or gives the pool that key made before. */
  async start(input: CreateInput): Promise<Creation> {
    const { idempotencyKey, caller } = input;
    if (idempotencyKey === null) return this.#begin(input);
    const requestHash = hashRequest(input.rawBody);
    const slot = `${caller.owner} ${idempotencyKey}`;
    const shared = this.#shared.get(slot);
    if (shared !== undefined) {
      requireSameRequest(idempotencyKey, shared.requestHash, requestHash);
      return shared.creation;
    }
    const creation = this.#beginOnce(input, idempotencyKey, requestHash);
    this.#shared.set(slot, { creation, requestHash });
    void creation
      .then((begun) => begun.pool)
      .catch(() => {})
      .finally(() => this.#shared.delete(slot));
    return creation;
  }

  async #beginOnce(input: CreateInput, key: string, requestHash: string): Promise<Creation> {
    const poolId = await this.#records.find(input.caller.owner, key, requestHash);
    const earlier = poolId === null ? null : this.#earlier(input.caller.owner, poolId);
    if (earlier !== null) return earlier;
    return this.#begin(input, (pool) => this.#records.record(input.caller.owner, key, requestHash, pool.id));
  }

  /** A pool lost with its server is made anew; one that was closed answers so. */
  #earlier(owner: string, poolId: string): Creation | null {
    try {
      const pool = Promise.resolve(this.#catalog.find(owner, poolId));
      return { operationId: poolId, pool, onProgress: () => {}, abandon: () => {} };
    } catch (error) {
      if (error instanceof SandpoolError && error.code === "pool_closed") throw error;
      return null;
    }
  }

  async #begin(input: CreateInput, afterwards?: (pool: Pool) => Promise<void>): Promise<Creation> {
    const operation = await this.#journal.begin("pool.create", input.caller);
    const controller = new AbortController();
    const progress = new ProgressFeed();
    const make = async () => {
      try {
        const pool = await this.#make(input, controller.signal, progress);
        await afterwards?.(pool);
        await operation.done(pool.id);
        return pool;
      } catch (error) {
        const reason = controller.signal.aborted ? controller.signal.reason : error;
        await operation.failed(reason instanceof SandpoolError ? reason.code : "internal");
        throw reason;
      }
    };
    const pool = make();
    this.#running.set(controller, pool);
    pool.catch(() => {}).finally(() => this.#running.delete(controller));
    const abandon = () => {
      if (input.idempotencyKey !== null) return;
      controller.abort(aborted());
      void pool.then((made) => this.close(input.caller, made)).catch(() => {});
    };
    return { operationId: operation.id, pool, abandon, onProgress: (listener) => progress.listen(listener) };
  }

  async #make({ caller, request, rawBody }: CreateInput, signal: AbortSignal, feed: ProgressFeed) {
    const pool = await this.#worker.pools.create(caller.owner, request, rawBody, {
      signal,
      onProgress: (progress) => feed.tell({ event: "progress", ...progress }),
    });
    if (signal.aborted) {
      await pool.close();
      throw signal.reason;
    }
    await this.#catalog.recordStart(caller.owner, pool);
    return pool;
  }

  /** Closes a pool and records who asked for it. */
  async close(caller: Identity, pool: Pool): Promise<void> {
    const operation = await this.#journal.begin("pool.delete", caller, pool.id);
    try {
      await pool.close();
      await this.#catalog.recordEnd(pool.id, "deleted");
      await operation.done(pool.id);
    } catch (error) {
      await operation.failed(error instanceof SandpoolError ? error.code : "internal");
      throw error;
    }
  }

  /** The server stops: every creation under way is rolled back; resolves when nothing of them is left. */
  async abortAll(): Promise<void> {
    for (const controller of this.#running.keys()) controller.abort(serverClosing());
    await Promise.allSettled(this.#running.values());
  }
}

/** Tells every listener, one that comes later from the last known state on. */
class ProgressFeed {
  readonly #listeners = new Set<ProgressListener>();
  #last: Progress | null = null;

  listen(listener: ProgressListener): void {
    this.#listeners.add(listener);
    if (this.#last !== null) listener(this.#last);
  }

  tell(progress: Progress): void {
    this.#last = progress;
    for (const listener of this.#listeners) listener(progress);
  }
}

function aborted(): SandpoolError {
  return new SandpoolError("creation_aborted", "the caller went away before the creation ended", {
    hint: "send an Idempotency-Key to let a creation outlive its connection",
  });
}
