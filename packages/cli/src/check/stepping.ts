import { percentiles, type RLPool, type RowError, type Value, type ValueObject } from "sandpool";
import type { ActionSource } from "./actions.ts";
import { describeValue } from "./contains.ts";
import { observationOf } from "./rows.ts";

/** What the stepping phase saw. */
export interface SteppingRecord {
  batches: number;
  envSteps: number;
  terminated: number;
  truncated: number;
  nonfiniteRewards: number;
  firstNonfinite: { row: number; step: number; reward: number } | null;
  failures: Map<string, { row: number; error: RowError; count: number }>;
  resetMs: number[];
  stepMs: number[];
  /** Each info key seen, with its first value's type. */
  infoTypes: Map<string, string>;
  stoppedEarly: boolean;
}

export interface SteppingHooks {
  onObservation: (observation: Value, row: number, step: number) => void;
  onStep: (step: number) => void;
}

const RESET_SAMPLES = 10;
const FAILURES_PER_ROW_LIMIT = 3;

/** Resets some times, then steps every row, resetting rows as their episodes end. Stops early once failures pile up. */
export async function stepThrough(
  pool: RLPool,
  actions: ActionSource,
  steps: number,
  hooks: SteppingHooks,
): Promise<SteppingRecord> {
  const record = emptyRecord();
  let infos = pool.resetInfos;
  for (let sample = 0; sample < RESET_SAMPLES && !record.stoppedEarly; sample += 1) {
    infos = await resetRows(pool, record, hooks, null, infos);
  }
  if (actions.draw === null) return record;
  for (let step = 1; step <= steps && !record.stoppedEarly; step += 1) {
    const { draw } = actions;
    const result = await pool.step(infos.map((info, row) => draw(row, info)));
    record.batches += 1;
    record.stepMs.push(pool.timing.roundtripMs);
    countRows(record, result, step, hooks);
    noteFailures(record, result.errors, pool.n);
    infos = result.infos;
    const ended = result.dones.flatMap((done, row) => (done ? [row] : []));
    if (ended.length > 0) infos = await resetRows(pool, record, hooks, ended, infos);
    hooks.onStep(step);
  }
  return record;
}

async function resetRows(
  pool: RLPool,
  record: SteppingRecord,
  hooks: SteppingHooks,
  where: number[] | null,
  infos: readonly ValueObject[],
): Promise<ValueObject[]> {
  const result = await pool.reset({ where });
  record.resetMs.push(pool.timing.roundtripMs);
  noteFailures(record, result.errors, pool.n);
  const rows = where ?? Array.from({ length: pool.n }, (_, row) => row);
  for (const row of rows) {
    noteInfo(record, result.infos[row] ?? {});
    if (!result.errors.has(row)) hooks.onObservation(observationOf(result.observations, row), row, 0);
  }
  const selected = new Set(rows);
  return infos.map((info, row) => (selected.has(row) ? (result.infos[row] ?? {}) : info));
}

function countRows(
  record: SteppingRecord,
  result: Awaited<ReturnType<RLPool["step"]>>,
  step: number,
  hooks: SteppingHooks,
): void {
  for (const [row, reward] of result.rewards.entries()) {
    if (result.errors.has(row)) continue;
    record.envSteps += 1;
    if (result.terminated[row]) record.terminated += 1;
    else if (result.truncated[row]) record.truncated += 1;
    if (!Number.isFinite(reward)) {
      record.nonfiniteRewards += 1;
      record.firstNonfinite ??= { row, step, reward };
    }
    noteInfo(record, result.infos[row] ?? {});
    hooks.onObservation(observationOf(result.observations, row), row, step);
  }
}

function noteFailures(record: SteppingRecord, errors: ReadonlyMap<number, RowError>, n: number): void {
  let total = 0;
  for (const [row, error] of errors) {
    const name = `${error.kind} ${error.op} ${error.type ?? ""}`;
    const known = record.failures.get(name);
    if (known === undefined) record.failures.set(name, { row, error, count: 1 });
    else known.count += 1;
  }
  for (const { count } of record.failures.values()) total += count;
  record.stoppedEarly ||= total >= n * FAILURES_PER_ROW_LIMIT;
}

function noteInfo(record: SteppingRecord, info: ValueObject): void {
  for (const [key, value] of Object.entries(info)) {
    if (!key.startsWith("sandpool_") && !record.infoTypes.has(key)) record.infoTypes.set(key, describeValue(value));
  }
}

/** Count, median and 99th percentile, rounded to microseconds; null without samples. */
export function summarise(samples: readonly number[]): { count: number; p50: number; p99: number } | null {
  if (samples.length === 0) return null;
  const { p50, p99 } = percentiles(samples);
  return { count: samples.length, p50: Number(p50.toFixed(3)), p99: Number(p99.toFixed(3)) };
}

function emptyRecord(): SteppingRecord {
  return {
    batches: 0,
    envSteps: 0,
    terminated: 0,
    truncated: 0,
    nonfiniteRewards: 0,
    firstNonfinite: null,
    failures: new Map(),
    resetMs: [],
    stepMs: [],
    infoTypes: new Map(),
    stoppedEarly: false,
  };
}
