import { ArgumentError, NotReadyError, type SandpoolError } from "../errors.ts";
import type { Part } from "./results.ts";
import { type WaitLimits, waitFor } from "./waiting.ts";

/** Results of rows that were sent with `send` or `sendReset`, until a `recv` takes them. */
export class Inbox {
  /** Rows that were sent and whose results were not taken. */
  readonly rows = new Set<number>();
  #parts: Part[] = [];
  #readyRows = 0;
  readonly #refusals: SandpoolError[] = [];
  #failure: SandpoolError | null = null;
  #notify: (() => void) | null = null;

  get isAwaited(): boolean {
    return this.#notify !== null;
  }

  add(part: Part): void {
    this.#parts.push(part);
    this.#readyRows += part.rows.length;
    this.#notify?.();
  }

  /** The pool refused what was sent: those rows are out no longer. */
  refuse(rows: readonly number[], error: SandpoolError): void {
    for (const row of rows) this.rows.delete(row);
    this.#refusals.push(error);
    this.#notify?.();
  }

  /** What came before can still be taken; with `isFinal` nothing else will. */
  fail(error: SandpoolError, isFinal: boolean): void {
    if (isFinal) {
      this.rows.clear();
      for (const row of this.#parts.flatMap((part) => part.rows)) this.rows.add(row);
    }
    this.#failure = error;
    this.#notify?.();
  }

  /** Throws the failure that nobody was told of yet. */
  throwFailure(): void {
    const failure = this.#failure;
    this.#failure = null;
    if (failure !== null) throw failure;
  }

  /**
   * Waits until results of `minReady` rows are there and takes all that are. Throws what was refused or has failed,
   * `NotReadyError` after `timeoutMs`, the signal's reason, and `ArgumentError` when fewer rows are out: they would never be ready.
   */
  async take(minReady: number, { timeoutMs, signal }: WaitLimits): Promise<Part[]> {
    signal?.throwIfAborted();
    const began = performance.now();
    for (;;) {
      const parts = this.#takeNow(minReady);
      if (parts !== null) return parts;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#notify = resolve;
      const leftMs = timeoutMs === undefined ? undefined : Math.max(timeoutMs - (performance.now() - began), 0);
      try {
        await waitFor(promise, { timeoutMs: leftMs, signal }, () => this.#notReady(minReady, timeoutMs ?? 0));
      } finally {
        this.#notify = null;
      }
    }
  }

  #takeNow(minReady: number): Part[] | null {
    const refusal = this.#refusals.shift();
    if (refusal !== undefined) throw refusal;
    if (this.#readyRows >= minReady) {
      const parts = this.#parts;
      this.#parts = [];
      this.#readyRows = 0;
      for (const row of parts.flatMap((part) => part.rows)) this.rows.delete(row);
      return parts;
    }
    this.throwFailure();
    if (this.rows.size >= minReady) return null;
    throw new ArgumentError(
      `recv with minReady ${minReady} was called while ${this.rows.size} rows are out; expected at most ${this.rows.size}.`,
      { hint: "send or sendReset first; a recv never waits for what was not sent." },
    );
  }

  #notReady(minReady: number, timeoutMs: number): NotReadyError {
    return new NotReadyError(
      `${this.#readyRows} rows were ready after timeoutMs ${timeoutMs}; expected minReady ${minReady}.`,
      { hint: "Nothing is lost: recv again." },
    );
  }
}
