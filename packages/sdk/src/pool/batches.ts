import { ConnectionError, SandpoolError } from "../errors.ts";
import type { Transport } from "../http/transport.ts";
import { BATCH_ACCEPT, type BatchReply, readBatchReply } from "./batchReply.ts";
import { readDescription } from "./description.ts";
import type { PoolTiming } from "./timing.ts";

export interface BatchBody {
  body: string | Uint8Array;
  contentType: string;
}

const CONNECTION_RETRIES = 5;

/**
 * Numbers a pool's batches and sends them one at a time. A broken connection is retried with the same number only, so nothing
 * is executed twice; when every attempt breaks, the next call first asks the server which number it stands at.
 */
export class Batches {
  private readonly transport: Transport;
  private readonly path: string;
  private readonly timing: PoolTiming;
  private nextSeq: number;
  private running: string | null = null;
  private uncertain = false;

  constructor(transport: Transport, path: string, timing: PoolTiming, nextSeq: number) {
    this.transport = transport;
    this.path = path;
    this.timing = timing;
    this.nextSeq = nextSeq;
  }

  async run(op: "reset" | "step" | "call", encode: (seq: number) => BatchBody): Promise<BatchReply> {
    if (this.running !== null) {
      throw new SandpoolError("pool_busy", `${op} was called while ${this.running} of the same pool is not done.`, {
        hint: "Await one call before the next; a pool handles one batch at a time.",
      });
    }
    this.running = op;
    try {
      if (this.uncertain) await this.resynchronise();
      return await this.sendNumbered(op, encode(this.nextSeq));
    } finally {
      this.running = null;
    }
  }

  private async sendNumbered(op: string, { body, contentType }: BatchBody): Promise<BatchReply> {
    const began = performance.now();
    const options = {
      body,
      contentType,
      accept: BATCH_ACCEPT,
      retries: CONNECTION_RETRIES,
      busyCodes: ["pool_busy"],
    };
    try {
      const reply = await this.transport.send("POST", `${this.path}/${op}`, options, readBatchReply);
      this.nextSeq += 1;
      this.timing.record(reply.timing, performance.now() - began);
      return reply;
    } catch (error) {
      // An answer with a 4xx refused the batch before it ran; anything else may have run it.
      const status = (error as SandpoolError).status;
      this.uncertain = error instanceof ConnectionError || status === undefined || status >= 500;
      throw error;
    }
  }

  private async resynchronise(): Promise<void> {
    const pool = readDescription(await this.transport.json("GET", this.path, { retries: CONNECTION_RETRIES }));
    this.nextSeq = pool.next_seq;
    this.uncertain = false;
  }
}
