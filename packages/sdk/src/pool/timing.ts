/** In milliseconds. */
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

/** Percentiles over the last 10,000 batches, or messages of the stream. */
export interface TimingSummary {
  /** How many they are over. */
  batches: number;
  /** Rows that missed their deadline since the pool object exists. */
  stragglersTotal: number;
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

/** Times of a pool's batches, in milliseconds. */
export class PoolTiming {
  /** The last batch, from its arrival in the worker to its reply. */
  workerMs = 0;
  /** The same batch, seen from here. */
  roundtripMs = 0;
  /** The slowest row of it. */
  slowestMs = 0;
  /** Rows of it that missed their deadline. */
  stragglers: readonly number[] = [];
  /** Rows that missed their deadline since this object exists. */
  stragglersTotal = 0;
  private readonly kept: { workerMs: number; roundtripMs: number; slowestMs: number }[] = [];
  private recorded = 0;

  /** Takes one batch in. */
  record(batch: BatchTiming, roundtripMs: number): void {
    const { workerMs, slowestMs } = batch;
    this.workerMs = workerMs;
    this.roundtripMs = roundtripMs;
    this.slowestMs = slowestMs;
    this.stragglers = batch.stragglers;
    this.stragglersTotal += batch.stragglers.length;
    this.kept[this.recorded % KEPT_BATCHES] = { workerMs, roundtripMs, slowestMs };
    this.recorded += 1;
  }

  /** p50, p95 and p99 over the last 10,000 batches; NaN before the first. */
  summary(): TimingSummary {
    return {
      batches: this.kept.length,
      stragglersTotal: this.stragglersTotal,
      workerMs: percentiles(this.kept.map((batch) => batch.workerMs)),
      roundtripMs: percentiles(this.kept.map((batch) => batch.roundtripMs)),
      slowestRowMs: percentiles(this.kept.map((batch) => batch.slowestMs)),
    };
  }
}

/** Percentiles with linear interpolation between the two nearest samples, numpy's default; NaN for an empty list. */
export function percentiles(samples: readonly number[]): Percentiles {
  const sorted = samples.toSorted((left, right) => left - right);
  const at = (percent: number): number => {
    const place = (percent / 100) * (sorted.length - 1);
    const lower = sorted[Math.floor(place)] ?? Number.NaN;
    return lower + ((sorted[Math.ceil(place)] ?? lower) - lower) * (place - Math.floor(place));
  };
  return { p50: at(50), p95: at(95), p99: at(99) };
}
