import { waitFor } from "./waiting.ts";

/** Turns of single calls between the messages of the rows: one at a time, when no row is out, and no row is asked meanwhile. */
export class Turns {
  /** The batch of a turn is being started: it is not refused for the environments that are checked out. */
  isActing = false;
  readonly #isBusy: () => boolean;
  readonly #wake: () => void;
  #current: Promise<void> | null = null;
  #quiet: PromiseWithResolvers<void> | null = null;

  /** `isBusy` says whether rows are out, `wake` tries again to bring them back. */
  constructor({ isBusy, wake }: { isBusy: () => boolean; wake: () => void }) {
    this.#isBusy = isBusy;
    this.#wake = wake;
  }

  get isTaken(): boolean {
    return this.#current !== null;
  }

  /** Waits for the end of the turn that somebody has; null if nobody has one. */
  pass(signal: AbortSignal | undefined): Promise<void> | null {
    return this.#current === null ? null : this.#wait(this.#current, signal);
  }

  /** Runs something when no row is out any longer. */
  async take<Result>(run: () => Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
    while (this.#current !== null) await this.#wait(this.#current, signal);
    const turn = Promise.withResolvers<void>();
    this.#current = turn.promise;
    try {
      if (this.#isBusy()) {
        this.#quiet = Promise.withResolvers<void>();
        this.#wake();
        await this.#wait(this.#quiet.promise, signal);
      }
      return await this.#act(run);
    } finally {
      this.#quiet = null;
      this.#current = null;
      turn.resolve();
    }
  }

  /** Rows came back: maybe the last ones. */
  look(): void {
    if (!this.#isBusy()) this.#quiet?.resolve();
  }

  /** The stream failed: whoever waits for rows to come back is told. */
  fail(error: Error): void {
    this.#quiet?.reject(error);
  }

  #wait(turn: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    return waitFor(turn, { signal }, () => new Error());
  }

  /** Batches are guarded before their first await, so only the one that is started here passes. */
  #act<Result>(run: () => Promise<Result>): Promise<Result> {
    this.isActing = true;
    try {
      return run();
    } finally {
      this.isActing = false;
    }
  }
}
