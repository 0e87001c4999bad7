import { fail } from "../../fail.ts";
import type { EncodedBatch } from "../../worker.ts";
import type { ReplyHold } from "./hold.ts";

/**
 * The order of a pool's batches: one at a time, each with the next number. A repeated request, the same bytes with the same number, gets the
 * reply of its first time, also while that is still being made, so a retry never executes anything twice.
 */
export class Turn {
  #lastSeq = 0;
  #lastRequest: Buffer | null = null;
  #lastReply: Promise<EncodedBatch> | null = null;
  #lastHold: ReplyHold | null = null;
  #running = false;
  /** Rows of the stream that are out: a batch waits for them. */
  rowsOut = 0;

  get nextSeq(): number {
    return this.#lastSeq + 1;
  }

  get running(): boolean {
    return this.#running;
  }

  get busy(): boolean {
    return this.#running || this.rowsOut > 0;
  }

  /** The reply that this very request got before; null if it is the next batch. @throws `pool_busy`, `pool_sequence` */
  repeated(seq: number, request: Buffer): Promise<EncodedBatch> | null {
    if (seq === this.#lastSeq && this.#lastReply !== null && this.#lastRequest?.equals(request) === true) {
      this.#lastHold?.add();
      return this.#lastReply;
    }
    if (this.#running) {
      throw fail(
        "pool_busy",
        `Batch ${seq} arrived while batch ${this.#lastSeq} runs; a pool handles one batch at a time.`,
        {
          hint: "Wait for the reply of the running batch; use one pool for each concurrent trainer.",
          details: { running: this.#lastSeq, received: seq },
        },
      );
    }
    if (this.rowsOut > 0) {
      throw fail("pool_busy", `Batch ${seq} arrived while ${this.rowsOut} rows of the stream are out.`, {
        hint: "Receive their results first; use one pool for each concurrent trainer.",
        details: { out: this.rowsOut, received: seq },
      });
    }
    if (seq === this.#lastSeq + 1) return null;
    const received = seq === this.#lastSeq ? `Batch ${seq} was another request` : `Batch ${seq} was received`;
    throw fail("pool_sequence", `${received}; ${this.#lastSeq + 1} was expected. Nothing was executed.`, {
      hint: "Another client has used this pool since; the details have the next number.",
      details: { received: seq, expected: this.#lastSeq + 1 },
    });
  }

  /** Takes the number; call after the request was checked. `settled` or `refused` must be called once the reply is there or failed. */
  begin(seq: number, request: Buffer, reply: Promise<EncodedBatch>, hold: ReplyHold): void {
    this.forget();
    hold.add();
    this.#lastHold = hold;
    this.#lastSeq = seq;
    this.#lastRequest = request;
    this.#lastReply = reply;
    this.#running = true;
  }

  settled(): void {
    this.#running = false;
  }

  /** Nothing of the batch was executed: its number is free for another request. */
  refused(): void {
    this.#running = false;
    this.#lastSeq -= 1;
    this.forget();
  }

  /** Lets the kept reply go; for a pool that was closed. */
  forget(): void {
    this.#lastRequest = null;
    this.#lastReply = null;
    this.#lastHold?.release();
    this.#lastHold = null;
  }
}
