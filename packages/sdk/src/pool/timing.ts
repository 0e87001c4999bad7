export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

export interface TimingSummary {
  batches: number;
  workerMs: Percentiles;
  roundtripMs: Percentiles;
  slowestRowMs: Percentiles;
}

/** What the server measured for one batch. */
export interface BatchTiming {
  workerMs: number;
  slowestMs: number;
  slowestRow: number | null;
  stragglers: readonly number[];
}

const KEPT_BATCHES = 10_000;

/** Times of a pool's batches; percentiles are over the last 10,000. */
export class PoolTiming {
  workerMs = 0;
  roundtripMs = 0;
  /** Rows of the last batch that missed their deadline. */
  stragglers: readonly number[] = [];
  stragglersTotal = 0;
  private readonly kept: { workerMs: number; roundtripMs: number; slowestMs: number }[] = [];
  private recorded = 0;

  record(batch: BatchTiming, roundtripMs: number): void {
    this.workerMs = batch.workerMs;
    this.roundtripMs = roundtripMs;
    this.stragglers = batch.stragglers;
    this.stragglersTotal += batch.stragglers.length;
    this.kept[this.recorded % KEPT_BATCHES] = { workerMs: batch.workerMs, roundtripMs, slowestMs: batch.slowestMs };
    this.recorded += 1;
  }

  summary(): TimingSummary {
    return {
      batches: this.recorded,
      workerMs: percentiles(this.kept.map((batch) => batch.workerMs)),
      roundtripMs: percentiles(this.kept.map((batch) => batch.roundtripMs)),
      slowestRowMs: percentiles(this.kept.map((batch) => batch.slowestMs)),
    };
  }
}

/** Nearest-rank percentiles; NaN for an empty list. */
export function percentiles(samples: readonly number[]): Percentiles {
  const sorted = samples.toSorted((left, right) => left - right);
  const at = (percent: number): number => sorted[Math.ceil((percent / 100) * sorted.length) - 1] ?? Number.NaN;
  return { p50: at(50), p95: at(95), p99: at(99) };
}
