import { randomUUID } from "node:crypto";
import { ConnectionError, SandpoolError } from "../errors.ts";
import type { Transport } from "../http/transport.ts";
import { BATCH_ACCEPT, type BatchReply, readBatchReply } from "./batchReply.ts";
import type { PoolTiming } from "./timing.ts";

export interface BatchBody {
  body: string | Uint8Array;
  contentType: string;
}

/** What every batch begins with; `client` keeps two pool objects' requests apart. */
export interface BatchNumber {
  seq: number;
  client: string;
}

type Operation = "reset" | "step" | "call";

/** A numbered request, kept until it is known whether the pool has executed it. */
interface UnsettledBatch extends BatchBody {
  operation: Operation;
  absorb: (reply: BatchReply) => void;
}

const CONNECTION_RETRIES = 5;

/**
 * Numbers a pool's batches and sends them one at a time. A broken connection is retried with the same number only, for which
 * the pool returns the reply it kept: nothing is executed twice. A batch whose fate stayed unknown is settled the same way
 * before the next one.
 */
export class Batches {
  private readonly transport: Transport;
  private readonly path: string;
  private readonly timing: PoolTiming;
  private readonly client = randomUUID();
  private nextSeq: number;
  private running: Operation | null = null;
  private unsettled: UnsettledBatch | null = null;

  constructor(transport: Transport, path: string, timing: PoolTiming, nextSeq: number) {
    this.transport = transport;
    this.path = path;
    this.timing = timing;
    this.nextSeq = nextSeq;
  }

  /** Sends one batch; `absorb` takes its reply in, also when it only arrives while the next batch is settled. */
  async run(
    operation: Operation,
    encode: (number: BatchNumber) => BatchBody,
    absorb: (reply: BatchReply) => void,
  ): Promise<BatchReply> {
    if (this.running !== null) {
      throw new SandpoolError(
        "pool_busy",
        `${operation} was called while ${this.running} of the same pool is not done.`,
        {
          hint: "Await one call before the next; a pool handles one batch at a time.",
        },
      );
    }
    this.running = operation;
    try {
      if (this.unsettled !== null) await this.settle(this.unsettled);
      const batch = { ...encode({ seq: this.nextSeq, client: this.client }), operation, absorb };
      return await this.send(batch);
    } finally {
      this.running = null;
    }
  }

  private async settle(batch: UnsettledBatch): Promise<void> {
    try {
      await this.send(batch);
    } catch (error) {
      // Refused now means settled: the pool has told where it stands. Unreachable means still unknown.
      if (this.unsettled !== null) throw error;
    }
  }

  private async send(batch: UnsettledBatch): Promise<BatchReply> {
    const began = performance.now();
    const { body, contentType } = batch;
    const repeat = { retries: CONNECTION_RETRIES, busyCodes: ["pool_busy"], repeated: this.unsettled !== null };
    this.unsettled = batch;
    try {
      const path = `${this.path}/${batch.operation}`;
      const reply = await this.transport.send(
        "POST",
        path,
        { body, contentType, accept: BATCH_ACCEPT, ...repeat },
        readBatchReply,
      );
      this.nextSeq += 1;
      this.unsettled = null;
      this.timing.record(reply.timing, performance.now() - began);
      batch.absorb(reply);
      return reply;
    } catch (error) {
      this.learnFrom(error);
      throw error;
    }
  }

  /** A 4xx refused the batch before it ran; after anything else it may have run. */
  private learnFrom(error: unknown): void {
    if (!(error instanceof SandpoolError) || error instanceof ConnectionError) return;
    const { expected } = error.details;
    if (error.code === "pool_sequence" && typeof expected === "number") this.nextSeq = expected;
    if (error.status !== undefined && error.status < 500) this.unsettled = null;
  }
}
