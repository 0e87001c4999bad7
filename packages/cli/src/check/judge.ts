import { formatSize } from "@sandpool/protocol";
import type { PoolReply, SandpoolError } from "sandpool";

import type { ActionSource } from "./actions.ts";
import type { DeterminismResult } from "./determinism.ts";
import type { CheckReport, Difference, Findings } from "./findings.ts";
import type { SpaceFaults } from "./spaceFaults.ts";
import type { SteppingRecord } from "./stepping.ts";

const FAILED_ADVICE = "Correct the failed rows first.";
const ACTIONS_ADVICE = "Announce an action_space, or give --actions FILE with one JSON action a line.";

/** The pool could not be made: the one finding of the report. */
export function judgeCreationFailure(findings: Findings, error: SandpoolError): void {
  const { traceback, stderr_tail: tail } = error.details;
  const shown = [traceback, tail].find((text): text is string => typeof text === "string" && text.trim() !== "");
  const detail = shown === undefined ? error.message : `${error.message}\n${lastLines(shown.trim(), 15)}`;
  findings.failed("start", detail, error.hint ?? "Read the error above, correct the environment and check again.");
}

export function judgeStart(findings: Findings, pool: PoolReply): NonNullable<CheckReport["start"]> {
  const { way, reason, timing } = pool.start;
  const detail = `${pool.n} environments by ${way} in ${(timing.total_ms / 1000).toFixed(2)} s`;
  if (way === "fork") findings.ok("start", detail);
  else {
    const advice =
      "A program forks if it uses sandpool.env and starts no thread or child program before its first reset; any other is started once for each row.";
    findings.warning("start", reason === null ? detail : `${detail}: ${reason}`, advice);
  }
  for (const warning of pool.warnings)
    findings.warning("pool", warning, "Read the warning; the pool works, with what it says.");
  return { way, reason, total_ms: timing.total_ms, timing: { ...timing } };
}

export function judgeSteps(
  findings: Findings,
  actions: ActionSource,
  record: SteppingRecord,
  latency: NonNullable<CheckReport["latency"]>,
): void {
  const { reset_ms: reset, step_ms: step } = latency;
  if (reset !== null)
    findings.ok("reset latency", `p50 ${reset.p50} ms, p99 ${reset.p99} ms over ${reset.count} batches`);
  if (actions.draw === null) findings.notChecked("step latency", `no actions: ${actions.description}`, ACTIONS_ADVICE);
  else if (step !== null) {
    findings.ok(
      "step latency",
      `p50 ${step.p50} ms, p99 ${step.p99} ms over ${step.count} batches; actions ${actions.description}`,
    );
  }
  if (record.stoppedEarly) {
    findings.failed(
      "steps",
      `stopped after ${record.batches} batches, because rows kept failing`,
      "Correct the failures below first.",
    );
  }
}

export function judgeSpaces(findings: Findings, faults: SpaceFaults): void {
  const check = "observation space";
  if (faults.announced === null) {
    findings.notChecked(
      check,
      "no observation_space is announced",
      "Announce an observation_space to have observations checked.",
    );
  } else if (faults.first !== null) {
    const { row, step, reason } = faults.first;
    findings.failed(
      check,
      `${faults.outside} of ${faults.looked} observations are outside ${faults.announced}; first: row ${row}, step ${step}, ${reason}`,
      "Correct the announced space or the observation; trainers size their buffers and networks by the space.",
    );
  } else if (faults.partly) {
    findings.warning(
      check,
      `${faults.looked} observations fit ${faults.announced} where it can be checked`,
      "A custom space is checked by no client.",
    );
  } else findings.ok(check, `${faults.looked} observations fit ${faults.announced}`);
}

export function judgeFailures(findings: Findings, record: SteppingRecord): CheckReport["failures"] {
  const failures = [...record.failures.values()].map(({ row, error, count }) => ({
    row,
    kind: error.kind,
    op: error.op,
    message: error.message,
    count,
    traceback: error.traceback,
    stderr_tail: error.stderrTail,
  }));
  if (failures.length === 0) findings.ok("failed rows", "none");
  for (const { row, kind, op, message, count, traceback, stderr_tail: tail } of failures) {
    const shown = (traceback ?? tail).trim();
    findings.failed(
      "failed rows",
      `${count} of kind ${kind} in ${op}; first row ${row}: ${message}${shown === "" ? "" : `\n${lastLines(shown, 15)}`}`,
      FAILURE_ADVICE[kind] ?? "Read the error and correct the environment.",
    );
  }
  return failures;
}

export function judgeEpisodes(
  findings: Findings,
  actions: ActionSource,
  record: SteppingRecord,
): CheckReport["episodes"] {
  if (actions.draw === null) {
    findings.notChecked("episodes", `no actions: ${actions.description}`, ACTIONS_ADVICE);
    return null;
  }
  if (record.envSteps === 0) {
    findings.notChecked("episodes", "no step of any row succeeded", FAILED_ADVICE);
    return null;
  }
  const { terminated, truncated, envSteps } = record;
  const ended = terminated + truncated;
  const detail = `${ended} ended in ${envSteps} environment steps (${terminated} terminated, ${truncated} truncated)`;
  if (ended > 0) findings.ok("episodes", detail);
  else {
    findings.warning(
      "episodes",
      detail,
      "If episodes should be shorter, end them (terminated) or limit them (truncated); else raise --steps.",
    );
  }
  return { ended, terminated, truncated, env_steps: envSteps };
}

export function judgeRewards(findings: Findings, actions: ActionSource, record: SteppingRecord): void {
  if (actions.draw === null) findings.notChecked("rewards", `no actions: ${actions.description}`, ACTIONS_ADVICE);
  else if (record.envSteps === 0) findings.notChecked("rewards", "no step of any row succeeded", FAILED_ADVICE);
  else if (record.firstNonfinite === null) findings.ok("rewards", `${record.envSteps} finite`);
  else {
    const { row, step, reward } = record.firstNonfinite;
    findings.failed(
      "rewards",
      `${record.nonfiniteRewards} of ${record.envSteps} are NaN or infinite; first: row ${row}, step ${step}, ${reward}`,
      "Find the division or logarithm that makes it; one such reward spoils a whole update.",
    );
  }
}

export function judgeDeterminism(findings: Findings, result: DeterminismResult, hasActions: boolean): void {
  const check = "determinism";
  const [first] = result.differences;
  const [infoFirst] = result.infoDifferences;
  if (result.steps === 0) {
    findings.notChecked(check, "rows failed, so there was nothing to compare", FAILED_ADVICE);
  } else if (first !== undefined) {
    findings.failed(
      check,
      describeDifference(first),
      "Draw all randomness from generators seeded in reset(seed); no clock, hash order or shared state.",
    );
  } else if (!hasActions) {
    findings.notChecked(check, "same seed, same first observation; steps were not compared", ACTIONS_ADVICE);
  } else if (result.steps === 1) {
    findings.notChecked(check, "same seed, same first observation; a row failed in its first step", FAILED_ADVICE);
  } else
    findings.ok(
      check,
      `same seed and actions gave the same ${result.steps - 1} steps in every row, and after a second reset`,
    );
  if (infoFirst !== undefined) {
    findings.warning(
      "determinism of info",
      describeDifference(infoFirst),
      "Leave clocks and process ids out of info if trajectories must be comparable.",
    );
  }
}

export function judgeMemory(findings: Findings, status: PoolReply): CheckReport["memory"] {
  const sizes = (status.rows ?? []).flatMap((row) => (typeof row.pss_bytes === "number" ? [row.pss_bytes] : []));
  if (sizes.length === 0) {
    findings.notChecked(
      "memory",
      "the server gave no figures",
      `Ask again with "sandpool pool status ID --memory" on a longer-lived pool.`,
    );
    return null;
  }
  const mean = sizes.reduce((sum, bytes) => sum + bytes, 0) / sizes.length;
  const method = status.memory?.method ?? "unknown";
  findings.ok(
    "memory",
    `${formatSize(mean)} for each environment (largest ${formatSize(Math.max(...sizes))}), PSS by ${method}`,
  );
  return { method, mean_bytes: Math.round(mean), max_bytes: Math.max(...sizes) };
}

const FAILURE_ADVICE: Readonly<Record<string, string>> = {
  timeout: "Make the step faster, or allow it more time with step_timeout when the pool is made.",
  crash: "The process ended by itself; look for exit calls, native crashes and killed children.",
  oom: "Use less memory, or raise memory= when the pool is made.",
  exception: "The traceback names the line; correct it or end the episode instead of raising.",
  protocol: "Return what the first reset and the announced space promise: same shape, dtype and a number as reward.",
  lost: "The environment could not be started again three times; read its logs.",
};

/** Where two trajectories differ, in words. */
export function describeDifference({ between, step, field, left, right }: Difference): string {
  return `${between} differ at step ${step}, ${field}: ${show(left)} and ${show(right)}`;
}

function show(value: unknown): string {
  const text =
    typeof value === "number"
      ? String(value)
      : (JSON.stringify(value, (_, item) => (typeof item === "bigint" ? String(item) : item)) ?? String(value));
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

function lastLines(text: string, count: number): string {
  return text.split("\n").slice(-count).join("\n");
}
