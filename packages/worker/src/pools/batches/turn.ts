import { fail } from "../../fail.ts";
import type { EncodedBatch } from "../../worker.ts";

/**
 * The order of a pool's batches: one at a time, each with the next number. A repeated number gets the reply of its first time, also while
 * that is still being made, so a retry never executes anything twice.
 */
export class Turn {
  #lastSeq = 0;
  #lastReply: Promise<EncodedBatch> | null = null;
  #running = false;

  get nextSeq(): number {
    return this.#lastSeq + 1;
  }

  get running(): boolean {
    return this.#running;
  }

  /** The reply of an earlier request with this number; null if it is the next batch. @throws `pool_busy`, `pool_sequence` */
  repeated(seq: number): Promise<EncodedBatch> | null {
    if (seq === this.#lastSeq && this.#lastReply !== null) return this.#lastReply;
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
    if (seq === this.#lastSeq + 1) return null;
    throw fail("pool_sequence", `Batch ${seq} was received; ${this.#lastSeq + 1} was expected.`, {
      hint: "Another client may have used this pool: attach to it again to learn its next number.",
      details: { received: seq, expected: this.#lastSeq + 1 },
    });
  }

  /** Takes the number; call after the request was checked. `settled` must be called once the reply is there or failed. */
  begin(seq: number, reply: Promise<EncodedBatch>): void {
    this.#lastSeq = seq;
    this.#lastReply = reply;
    this.#running = true;
  }

  settled(): void {
    this.#running = false;
  }

  /** Lets the kept reply go; for a pool that was closed. */
  forget(): void {
    this.#lastReply = null;
  }
}
