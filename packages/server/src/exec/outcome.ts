import { constants } from "node:os";
import type { ExecOutcome as WireOutcome } from "@sandpool/protocol";
import type { ExecOutcome, ExecState } from "@sandpool/worker";

const SIGNALS: Readonly<Record<string, number>> = constants.signals;

/** An outcome in the API's form, without what was written. */
export function describeOutcome(outcome: ExecOutcome): WireOutcome {
  const { stdout, stderr } = outcome;
  return {
    id: outcome.id,
    state: "exited",
    exit_code: exitCodeOf(outcome.exitCode, outcome.signal),
    signal: outcome.signal,
    timed_out: outcome.timedOut,
    oom_killed: outcome.oomKilled,
    truncated: stdout.dropped > 0 || stderr.dropped > 0,
    duration_ms: outcome.durationMs,
    stdout_bytes: stdout.bytes,
    stderr_bytes: stderr.bytes,
    stdout_dropped: stdout.dropped,
    stderr_dropped: stderr.dropped,
    stdout_head: stdout.head,
    stderr_head: stderr.head,
    left: outcome.left,
  };
}

/** The program's own code, or what a shell says of one that a signal ended: 128 and its number. */
export function exitCodeOf(code: number | null, signal: string | null): number | null {
  if (code !== null || signal === null) return code;
  // The kernel counts its real-time signals from 34 on, after the two that glibc keeps.
  const realTime = /^RTMIN(?:\+([0-9]+))?$/.exec(signal);
  const number = realTime === null ? SIGNALS[`SIG${signal}`] : 34 + Number(realTime[1] ?? 0);
  return number === undefined ? null : 128 + number;
}

/** A line of the list. */
export function describeState(state: ExecState) {
  return {
    id: state.id,
    state: state.state,
    argv: state.argv,
    pid: state.pid,
    started_at: new Date(state.startedAt).toISOString(),
    exit_code: exitCodeOf(state.exitCode, state.signal),
    signal: state.signal,
  };
}
