import type { Turn } from "../batches/turn.ts";
import type { RowRange } from "../rows/ranges.ts";
import type { RunningShard } from "../shards/start.ts";

export type StreamOperation = "step" | "reset";

/** A row from the moment its message was accepted until its result is made. */
export interface RowOut {
  /** What the client asked for. */
  op: StreamOperation;
  /** Times by `performance.now()`. */
  sinceMs: number;
  /** When its agent is given up. */
  hopelessAtMs: number;
  /** Which agent has it, and for what: a pending reset answers a step. Null while it waits for a shard to start again. */
  sent: { to: RunningShard; as: StreamOperation } | null;
}

/** Which rows of a pool are out. The pool's turn knows their number: batches wait for them. */
export class RowsOut {
  readonly #rows = new Map<number, RowOut>();
  readonly #turn: Turn;

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  get count(): number {
    return this.#rows.size;
  }

  get(row: number): RowOut | undefined {
    return this.#rows.get(row);
  }

  add(rows: readonly number[], op: StreamOperation): void {
    const sinceMs = performance.now();
    for (const row of rows) this.#rows.set(row, { op, sinceMs, hopelessAtMs: Number.POSITIVE_INFINITY, sent: null });
    this.#turn.rowsOut = this.#rows.size;
  }

  sent(rows: readonly number[], to: RunningShard, as: StreamOperation, limitMs: number): void {
    const hopelessAtMs = performance.now() + limitMs;
    const sent = { to, as };
    for (const row of rows) {
      const out = this.#rows.get(row);
      if (out === undefined) continue;
      out.sent = sent;
      out.hopelessAtMs = hopelessAtMs;
    }
  }

  remove(rows: readonly number[]): void {
    for (const row of rows) this.#rows.delete(row);
    this.#turn.rowsOut = this.#rows.size;
  }

  clear(): void {
    this.remove([...this.#rows.keys()]);
  }

  /** The rows that an agent has, ascending. */
  sentTo(running: RunningShard): number[] {
    const rows: number[] = [];
    for (const [row, out] of this.#rows) if (out.sent?.to === running) rows.push(row);
    return rows.sort((a, b) => a - b);
  }

  /** Whether an agent kept one of the rows long beyond every deadline. */
  isHopeless({ first, count }: RowRange, nowMs: number): boolean {
    for (const [row, out] of this.#rows) {
      if (row >= first && row < first + count && out.hopelessAtMs <= nowMs) return true;
    }
    return false;
  }
}
