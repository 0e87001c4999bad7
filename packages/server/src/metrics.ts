import type { BatchSummary } from "@sandpool/protocol";
import type { StreamSummary } from "@sandpool/worker";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

export const BATCH_OPERATIONS = ["step", "reset", "call", "fork", "save", "restore", "observations"] as const;
export type BatchOperation = (typeof BATCH_OPERATIONS)[number];

const BATCH_BUCKETS_SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

interface BatchCounters {
  seconds: Histogram.Internal<"operation">;
  rows: Counter.Internal;
}

/** Counts what the server did; labels come from fixed sets only, never from a client or a sandbox. */
export class Metrics {
  readonly registry = new Registry();
  readonly #batches: Record<BatchOperation, BatchCounters>;
  readonly #failures: Counter<"kind">;
  readonly #stragglers: Counter;
  readonly #errors: Counter<"code">;
  readonly #operations: Counter<"kind" | "result">;
  readonly #execs: Counter<"result">;
  readonly #streamed = new WeakSet<StreamSummary>();

  /** `held` looks, at each scrape, at what is there. */
  constructor(held: () => { pools: number; states: number; machines: Readonly<Record<string, number>> }) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    const seconds = new Histogram({
      name: "sandpool_batch_seconds",
      help: "Time of a batch from the request's headers to its reply",
      labelNames: ["operation"],
      buckets: BATCH_BUCKETS_SECONDS,
      registers,
    });
    const rows = new Counter({
      name: "sandpool_rows_total",
      help: "Rows handled",
      labelNames: ["operation"],
      registers,
    });
    const of = (operation: BatchOperation) => ({ seconds: seconds.labels(operation), rows: rows.labels(operation) });
    this.#batches = Object.fromEntries(BATCH_OPERATIONS.map((operation) => [operation, of(operation)])) as Record<
      BatchOperation,
      BatchCounters
    >;
    this.#failures = new Counter({
      name: "sandpool_failures_total",
      help: "Failed rows",
      labelNames: ["kind"],
      registers,
    });
    this.#stragglers = new Counter({ name: "sandpool_stragglers_total", help: "Rows past their deadline", registers });
    this.#errors = new Counter({
      name: "sandpool_errors_total",
      help: "Error replies",
      labelNames: ["code"],
      registers,
    });
    this.#operations = new Counter({
      name: "sandpool_operations_total",
      help: "State-changing operations",
      labelNames: ["kind", "result"],
      registers,
    });
    this.#execs = new Counter({
      name: "sandpool_execs_total",
      help: "Programs started in machines",
      labelNames: ["result"],
      registers,
    });
    new Gauge({
      name: "sandpool_machines",
      help: "Machines",
      labelNames: ["state"],
      registers,
      collect() {
        for (const [state, count] of Object.entries(held().machines)) this.labels(state).set(count);
      },
    });
    new Gauge({
      name: "sandpool_pools",
      help: "Live pools",
      registers,
      collect() {
        this.set(held().pools);
      },
    });
    new Gauge({
      name: "sandpool_saved_states",
      help: "Saved states of live pools; lost ones count until they are dropped",
      registers,
      collect() {
        this.set(held().states);
      },
    });
  }

  /** One exec of a machine that was started; `result` is how its start went. */
  exec(result: "started" | "failed"): void {
    this.#execs.labels(result).inc();
  }

  batch(operation: BatchOperation, seconds: number, rows: number, summary: BatchSummary | undefined): void {
    const counters = this.#batches[operation];
    counters.seconds.observe(seconds);
    counters.rows.inc(summary?.rows ?? rows);
    if (summary !== undefined) this.#failed(summary.stragglers, summary.failures);
  }

  /** Rows that a stream delivered; a message that is sent again, to a client that came back, counts once. */
  streamed(summary: StreamSummary): void {
    if (this.#streamed.has(summary)) return;
    this.#streamed.add(summary);
    const { steps, resets, stragglers, failures } = summary;
    this.#batches.step.rows.inc(steps);
    this.#batches.reset.rows.inc(resets);
    this.#failed(stragglers, failures);
  }

  error(code: string): void {
    this.#errors.labels(code).inc();
  }

  operation(kind: string, result: "done" | "failed"): void {
    this.#operations.labels(kind, result).inc();
  }

  #failed(stragglers: number, failures: Readonly<Record<string, number>>): void {
    if (stragglers > 0) this.#stragglers.inc(stragglers);
    for (const [kind, count] of Object.entries(failures)) this.#failures.labels(failureKind(kind)).inc(count);
  }
}

const FAILURE_KINDS = new Set(["timeout", "crash", "oom", "exception", "protocol", "lost"]);

function failureKind(kind: string): string {
  return FAILURE_KINDS.has(kind) ? kind : "other";
}
