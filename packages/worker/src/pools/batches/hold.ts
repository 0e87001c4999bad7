/** Counts who may still read the bytes of a reply: the pool, which keeps it for a repeated request, and each caller it was given to. */
export class ReplyHold {
  #holders = 0;
  #free: (() => void)[] = [];

  add(): void {
    this.#holders += 1;
  }

  /** What to do when nobody holds it any more; never called where a caller does not let go. */
  whenFree(free: () => void): void {
    this.#free.push(free);
  }

  /** Each holder calls it once. */
  release(): void {
    this.#holders -= 1;
    if (this.#holders > 0) return;
    for (const free of this.#free) free();
    this.#free = [];
  }
}
