export type Verdict = "ok" | "failed" | "warning" | "not checked";

/** One line of the report. `advice` says what to do, and is there whenever the verdict is not `ok`. */
export interface Finding {
  check: string;
  verdict: Verdict;
  detail: string;
  advice: string | null;
}

/** What `env check` reports, the same for people and for `--json`. */
export interface CheckReport {
  environment: string;
  server: { url: string; started_for_this_check: boolean };
  rows: number;
  steps: number;
  seed: number;
  ok: boolean;
  findings: Finding[];
  start: { way: string; reason: string | null; total_ms: number; timing: Record<string, number> } | null;
  latency: Record<"reset_ms" | "step_ms", { count: number; p50: number; p99: number } | null> | null;
  types: { observation: string; action: string | null; info: string; layout: string } | null;
  episodes: { ended: number; terminated: number; truncated: number; env_steps: number } | null;
  failures: CheckFailure[];
  memory: { method: string; mean_bytes: number; max_bytes: number } | null;
  determinism: Difference[] | null;
  /** `way` is null where rows could not be copied: `blockers` say why. `steps` were compared after a restore. */
  branching: { way: "fork" | "state" | null; blockers: string[]; steps: number; difference: Difference | null } | null;
}

/** Failures of one kind: the first of them, and how many there were. */
export interface CheckFailure {
  row: number;
  kind: string;
  op: string;
  message: string;
  count: number;
  traceback: string | null;
  stderr_tail: string;
}

export interface Difference {
  between: string;
  step: number;
  field: string;
  left: unknown;
  right: unknown;
}

/** Collects findings in the order of the report. */
export class Findings {
  readonly list: Finding[] = [];

  ok(check: string, detail: string): void {
    this.list.push({ check, verdict: "ok", detail, advice: null });
  }

  failed(check: string, detail: string, advice: string): void {
    this.list.push({ check, verdict: "failed", detail, advice });
  }

  warning(check: string, detail: string, advice: string): void {
    this.list.push({ check, verdict: "warning", detail, advice });
  }

  notChecked(check: string, detail: string, advice: string): void {
    this.list.push({ check, verdict: "not checked", detail, advice });
  }
}
