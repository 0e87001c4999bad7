import type { BatchSummary } from "@sandpool/protocol";
import type { Pool } from "@sandpool/worker";

/** How many saved states each pool holds, for the metrics: asking a pool for its states would wait for its batch and extend its lease. */
export class SavedStateCounts {
  readonly #held = new WeakMap<Pool, number>();
  readonly #counted = new WeakSet<BatchSummary>();

  /** A save that is asked for again has the same summary, and counts once. */
  saved(pool: Pool, summary: BatchSummary | undefined): void {
    if (summary === undefined || this.#counted.has(summary)) return;
    this.#counted.add(summary);
    this.#held.set(pool, this.of(pool) + summary.rows);
  }

  dropped(pool: Pool, count: number): void {
    this.#held.set(pool, this.of(pool) - count);
  }

  of(pool: Pool): number {
    return this.#held.get(pool) ?? 0;
  }
}
