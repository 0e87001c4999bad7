import { type MachineState, SandpoolError } from "@sandpool/protocol";
import type { MachineRecord } from "./record.ts";

/** Every state and where it can go. What is not listed never happens; `deleting` ends in nothing or, where something is left, in `failed`. */
const TRANSITIONS: Readonly<Record<MachineState, readonly MachineState[]>> = {
  creating: ["running", "deleting", "failed"],
  running: ["stopping", "stopped", "deleting"],
  stopping: ["stopped", "running", "deleting"],
  stopped: ["starting", "deleting"],
  starting: ["running", "stopped", "deleting"],
  deleting: ["failed"],
  failed: ["deleting"],
};

export type MachineVerb = "stop" | "start" | "lease" | "use";

/** States in which a verb does its work. `delete` works in all of them. */
const FITS: Readonly<Record<MachineVerb, readonly MachineState[]>> = {
  stop: ["running"],
  start: ["stopped"],
  lease: ["creating", "running", "stopping", "stopped", "starting"],
  use: ["running"],
};

const ADVICE: Readonly<Record<MachineState, string>> = {
  creating: "wait until it runs",
  running: "stop it first",
  stopping: "wait until it has stopped, then start it",
  stopped: "start it first (POST …/start)",
  starting: "wait until it runs",
  deleting: "it is on its way out; create another",
  failed: "delete it (DELETE) and create another",
};

export function canGo(from: MachineState, to: MachineState): boolean {
  return TRANSITIONS[from].includes(to);
}

/** @throws `machine_state`, which names the verb and the state */
export function requireFit(record: Readonly<MachineRecord>, verb: MachineVerb, what: string = verb): void {
  if (!FITS[verb].includes(record.state)) throw wrongState(record, verb, what);
}

export function wrongState(record: Readonly<MachineRecord>, verb: MachineVerb, what: string): SandpoolError {
  const { id, name, state, reason } = record;
  const why = state === "stopped" && reason !== null && reason !== "stopped" ? ` (${reason})` : "";
  return new SandpoolError(
    "machine_state",
    `the machine ${name} is ${state}${why}; "${what}" needs it ${FITS[verb].join(" or ")}`,
    { hint: ADVICE[state], details: { id, name, state, reason, verb: what, expected: FITS[verb] } },
  );
}

/** For what still waits for a machine that is gone or about to be. */
export function machineLost(record: { id: string; name: string }, why: string): SandpoolError {
  return new SandpoolError("machine_lost", `the machine ${record.name} (${record.id}) ${why}`, {
    hint: "create another; GET /v1/machines lists those that are there",
    details: { id: record.id, name: record.name },
  });
}

export function machineNotFound(idOrName: string): SandpoolError {
  return new SandpoolError("machine_not_found", `there is no machine ${JSON.stringify(idOrName)}`, {
    hint: "GET /v1/machines lists yours",
    details: { received: idOrName },
  });
}
