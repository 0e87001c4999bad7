/** Rows of one shard whose part of a message its agent refused. */
export interface RefusedPart {
  rows: readonly number[];
  error: Error;
}

/**
 * One message on its way to several shards. It is refused as a whole when every one of them refused its part; where another took its own, the
 * refused rows have failed.
 */
export class MessageOut {
  /** One more than the answers that are missing, until `sealed`. */
  #missing = 1;
  #isTaken = false;
  #refused: RefusedPart[] = [];
  readonly #onRefused: (error: Error) => void;
  readonly #onFailed: (part: RefusedPart) => void;

  constructor(onRefused: (error: Error) => void, onFailed: (part: RefusedPart) => void) {
    this.#onRefused = onRefused;
    this.#onFailed = onFailed;
  }

  expectAnswer(): void {
    this.#missing += 1;
  }

  /** A shard has its part, or the worker answered for it. */
  taken(): void {
    this.#isTaken = true;
    this.#answered();
  }

  refused(rows: readonly number[], error: Error): void {
    this.#refused.push({ rows, error });
    this.#answered();
  }

  /** Every part is on its way. */
  sealed(): void {
    this.#answered();
  }

  #answered(): void {
    this.#missing -= 1;
    if (this.#isTaken) {
      const parts = this.#refused;
      this.#refused = [];
      for (const part of parts) this.#onFailed(part);
    } else if (this.#missing === 0 && this.#refused.length > 0) {
      this.#onRefused((this.#refused[0] as RefusedPart).error);
    }
  }
}
