import { randomUUID } from "node:crypto";
import { ConnectionError, SandpoolError } from "../errors.ts";
import type { Reply, Transport } from "../http/transport.ts";
import { BATCH_ACCEPT, type BatchReply, readBatchReply } from "./batchReply.ts";
import type { BatchBody, Encode } from "./requests.ts";
import type { BatchTiming, PoolTiming } from "./timing.ts";

export type Operation = "reset" | "step" | "call" | "fork" | "save" | "restore";

/** Where an operation's request goes, if not to its own name. */
const PLACES: Partial<Record<Operation, string>> = { save: "states" };

interface BatchRequest {
  operation: Operation;
  encode: Encode;
  /** How long the pool may take. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** `absorb` takes its reply in, also when it only arrives while the next batch is settled. */
export type Batch<Result> = BatchRequest &
  ({ absorb: (reply: BatchReply) => Result } | { readJson: (reply: Reply) => Promise<Received<Result>> });

/** A reply that was read whole, to be taken in once it is known to be the batch's. */
export interface Received<Result> {
  timing: BatchTiming;
  absorb: () => Result;
}

/** A numbered request, kept until it is known whether the pool has executed it. */
interface UnsettledBatch extends BatchBody {
  operation: Operation;
  accept: string;
  read: (reply: Reply) => Promise<Received<unknown>>;
  timeoutMs: number;
}

const CONNECTION_RETRIES = 5;

/**
 * Numbers a pool's batches and sends them one at a time. A broken connection is retried with the same number only, for which
 * the pool returns the reply it kept: nothing is executed twice. A batch whose fate stayed unknown, also one that was
 * aborted, is settled the same way before the next one.
 */
export class Batches {
  /** Called before a batch is sent: may refuse it, or gives what it waits for first. */
  guard: (operation: Operation, signal: AbortSignal | undefined) => Promise<void> | null = () => null;
  private readonly transport: Transport;
  private readonly path: string;
  private readonly timing: PoolTiming;
  private readonly client = randomUUID();
  private nextSeq: number;
  private current: Operation | "settle" | null = null;
  /** The batch that waits for what its guard gave. Settling goes on meanwhile: what is waited for may need it. */
  private preparing: Operation | null = null;
  private unsettled: UnsettledBatch | null = null;

  constructor(transport: Transport, path: string, timing: PoolTiming, nextSeq: number) {
    this.transport = transport;
    this.path = path;
    this.timing = timing;
    this.nextSeq = nextSeq;
  }

  /** What is under way now, or null. */
  get running(): string | null {
    return this.preparing ?? this.current;
  }

  /** Sends one batch and gives what `absorb` makes of its reply. */
  async run<Result>(batch: Batch<Result>): Promise<Result> {
    const { operation, encode, timeoutMs, signal } = batch;
    this.refuseWhileRunning(operation);
    signal?.throwIfAborted();
    const ready = this.guard(operation, signal);
    if (ready !== null) {
      this.preparing = operation;
      try {
        await ready;
      } finally {
        this.preparing = null;
      }
      this.refuseWhileRunning(operation);
    }
    return this.exclusively(operation, async () => {
      await this.settleUnsettled(signal);
      const body = encode({ seq: this.nextSeq, client: this.client });
      return (await this.send({ operation, ...reading(batch), timeoutMs, ...body }, signal)) as Result;
    });
  }

  /** Finds out what became of a batch whose fate is unknown and takes its reply in; nothing, if there is none. */
  async settle(signal?: AbortSignal): Promise<void> {
    if (this.unsettled === null) return;
    this.refuseDuring(this.current, "settle");
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
    const { body, contentType, accept, read, timeoutMs, operation } = batch;
    const repeated = this.unsettled !== null;
    this.unsettled = batch;
    let reply: Received<unknown>;
    try {
      reply = await this.transport.send(
        "POST",
        `${this.path}/${PLACES[operation] ?? operation}`,
        {
          ...{ body, contentType, timeoutMs, signal, repeated, accept },
          ...{ retries: CONNECTION_RETRIES, busyCodes: ["pool_busy"] },
        },
        read,
      );
    } catch (error) {
      this.learnFrom(error, repeated);
      throw error;
    }
    this.nextSeq += 1;
    this.unsettled = null;
    this.timing.record(reply.timing, performance.now() - began);
    return reply.absorb();
  }

  /**
   * What never reached the server did not run, a 4xx refused the batch before it ran, and a failure that names the next number is the batch's own.
   * After anything else it may have run; a second answer like that is all that will be known of it.
   */
  private learnFrom(error: unknown, repeated: boolean): void {
    if (!(error instanceof SandpoolError)) return;
    if (error instanceof ConnectionError) {
      if (!error.mayHaveArrived && !repeated) this.unsettled = null;
      return;
    }
    if (error.status === undefined) return;
    const told = error.details[error.code === "pool_sequence" ? "expected" : "next_seq"];
    if (typeof told === "number") this.nextSeq = told;
    if (typeof told === "number" || error.status < 500 || repeated) this.unsettled = null;
  }

  private refuseWhileRunning(operation: Operation): void {
    this.refuseDuring(this.running, operation);
  }

  private refuseDuring(running: string | null, operation: string): void {
    if (running === null) return;
    throw new SandpoolError("pool_busy", `${operation} was called while ${running} of the same pool is not done.`, {
      hint: "Await one call before the next; a pool handles one batch at a time.",
    });
  }
}

function reading<Result>(batch: Batch<Result>): Pick<UnsettledBatch, "accept" | "read"> {
  if ("readJson" in batch) return { accept: "application/json", read: batch.readJson };
  const read = async (message: Reply): Promise<Received<Result>> => {
    const reply = await readBatchReply(message);
    return { timing: reply.timing, absorb: () => batch.absorb(reply) };
  };
  return { accept: BATCH_ACCEPT, read };
}
