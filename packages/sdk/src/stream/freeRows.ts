import { NotReadyError } from "../errors.ts";
import { type WaitLimits, waitFor } from "./waiting.ts";

interface Waiter {
  resolve: (row: number) => void;
  reject: (error: Error) => void;
}

/** Hands out rows, one holder a row: the one that was given back longest ago first, so that a failed row's process has time to be replaced. */
export class FreeRows {
  /** Rows that are handed out. */
  readonly held = new Set<number>();
  readonly #order: Set<number>;
  readonly #isUsable: (row: number) => boolean;
  #waiters: Waiter[] = [];

  /** `isUsable` says which rows are not in use in another way. */
  constructor(n: number, isUsable: (row: number) => boolean) {
    this.#order = new Set(Array.from({ length: n }, (_, row) => row));
    this.#isUsable = isUsable;
  }

  /** Whether somebody waits for a row. */
  get isAwaited(): boolean {
    return this.#waiters.length > 0;
  }

  /** A free row, as soon as there is one; who waits longest is served first. */
  async acquire(limits: WaitLimits): Promise<number> {
    limits.signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const waiter = { resolve, reject };
    this.#waiters.push(waiter);
    this.serve();
    try {
      return await waitFor(promise, limits, () => this.#noneFree(limits.timeoutMs ?? 0));
    } catch (error) {
      if (this.#waiters.includes(waiter)) this.#waiters = this.#waiters.filter((other) => other !== waiter);
      // It was served in the same moment in which it gave up.
      else promise.then((row) => this.release(row)).catch(() => undefined);
      throw error;
    }
  }

  release(row: number): void {
    if (!this.held.delete(row)) return;
    this.#order.add(row);
    this.serve();
  }

  /** Serves those who wait; called also when rows that were in use otherwise are free again. */
  serve(): void {
    for (const row of this.#order) {
      if (this.#waiters.length === 0) return;
      if (!this.#isUsable(row)) continue;
      this.#order.delete(row);
      this.held.add(row);
      this.#waiters.shift()?.resolve(row);
    }
  }

  /** Ends every wait with an error. */
  fail(error: Error): void {
    for (const { reject } of this.#waiters.splice(0)) reject(error);
  }

  #noneFree(timeoutMs: number): NotReadyError {
    return new NotReadyError(
      `No row was free after timeoutMs ${timeoutMs}: ${this.held.size} environments are in use.`,
      {
        hint: "Release environments with `await using` or release(), or make the pool larger.",
      },
    );
  }
}
