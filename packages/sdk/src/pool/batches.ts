import { randomUUID } from "node:crypto";
import { ConnectionError, SandpoolError } from "../errors.ts";
import type { Transport } from "../http/transport.ts";
import { BATCH_ACCEPT, type BatchReply, readBatchReply } from "./batchReply.ts";
import type { BatchBody, Encode } from "./requests.ts";
import type { PoolTiming } from "./timing.ts";

export type Operation = "reset" | "step" | "call";

export interface Batch<Result> {
  operation: Operation;
  encode: Encode;
  /** Takes its reply in, also when it only arrives while the next batch is settled. */
  absorb: (reply: BatchReply) => Result;
  /** How long the pool may take. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** A numbered request, kept until it is known whether the pool has executed it. */
interface UnsettledBatch extends BatchBody {
  operation: Operation;
  absorb: (reply: BatchReply) => unknown;
  timeoutMs: number;
}

const CONNECTION_RETRIES = 5;

/**
 * Numbers a pool's batches and sends them one at a time. A broken connection is retried with the same number only, for which
 * the pool returns the reply it kept: nothing is executed twice. A batch whose fate stayed unknown, also one that was
 * aborted, is settled the same way before the next one.
 */
export class Batches {
  /** Called before a batch is sent; may refuse it. */
  guard: (operation: Operation) => void = () => undefined;
  private readonly transport: Transport;
  private readonly path: string;
  private readonly timing: PoolTiming;
  private readonly client = randomUUID();
  private nextSeq: number;
  private current: Operation | "settle" | null = null;
  private unsettled: UnsettledBatch | null = null;

  constructor(transport: Transport, path: string, timing: PoolTiming, nextSeq: number) {
    this.transport = transport;
    this.path = path;
    this.timing = timing;
    this.nextSeq = nextSeq;
  }

  /** What is under way now, or null. */
  get running(): string | null {
    return this.current;
  }

  /** Sends one batch and gives what `absorb` makes of its reply. */
  async run<Result>({ encode, signal, ...batch }: Batch<Result>): Promise<Result> {
    const { operation } = batch;
    this.refuseWhileRunning(operation);
    this.guard(operation);
    signal?.throwIfAborted();
    return this.exclusively(operation, async () => {
      await this.settleUnsettled(signal);
      const body = encode({ seq: this.nextSeq, client: this.client });
      return (await this.send({ ...batch, ...body }, signal)) as Result;
    });
  }

  /** Finds out what became of a batch whose fate is unknown and takes its reply in; nothing, if there is none. */
  async settle(signal?: AbortSignal): Promise<void> {
    if (this.unsettled === null) return;
    this.refuseWhileRunning("settle");
    await this.exclusively("settle", () => this.settleUnsettled(signal));
  }

  private async exclusively<Result>(operation: Operation | "settle", act: () => Promise<Result>): Promise<Result> {
    this.current = operation;
    try {
      return await act();
    } finally {
      this.current = null;
    }
  }

  private async settleUnsettled(signal: AbortSignal | undefined): Promise<void> {
    if (this.unsettled === null) return;
    try {
      await this.send(this.unsettled, signal);
    } catch (error) {
      // Refused now means settled: the pool has told where it stands. Unreachable means still unknown.
      if (this.unsettled !== null) throw error;
    }
  }

  private async send(batch: UnsettledBatch, signal: AbortSignal | undefined): Promise<unknown> {
    const began = performance.now();
    const { body, contentType, timeoutMs, operation } = batch;
    const repeated = this.unsettled !== null;
    this.unsettled = batch;
    let reply: BatchReply;
    try {
      reply = await this.transport.send(
        "POST",
        `${this.path}/${operation}`,
        {
          ...{ body, contentType, timeoutMs, signal, repeated, accept: BATCH_ACCEPT },
          ...{ retries: CONNECTION_RETRIES, busyCodes: ["pool_busy"] },
        },
        readBatchReply,
      );
    } catch (error) {
      this.learnFrom(error, repeated);
      throw error;
    }
    this.nextSeq += 1;
    this.unsettled = null;
    this.timing.record(reply.timing, performance.now() - began);
    return batch.absorb(reply);
  }

  /** A 4xx refused the batch before it ran, and what never reached the server did not run; after anything else it may have run. */
  private learnFrom(error: unknown, repeated: boolean): void {
    if (!(error instanceof SandpoolError)) return;
    if (error instanceof ConnectionError) {
      if (!error.mayHaveArrived && !repeated) this.unsettled = null;
      return;
    }
    const { expected } = error.details;
    if (error.code === "pool_sequence" && typeof expected === "number") this.nextSeq = expected;
    if (error.status !== undefined && error.status < 500) this.unsettled = null;
  }

  private refuseWhileRunning(operation: string): void {
    if (this.current === null) return;
    throw new SandpoolError(
      "pool_busy",
      `${operation} was called while ${this.current} of the same pool is not done.`,
      {
        hint: "Await one call before the next; a pool handles one batch at a time.",
      },
    );
  }
}
