import { type ErrorCode, SandpoolError, type WireError } from "@sandpool/protocol";
import { DriverError } from "../../drivers/driver.ts";
import type { MachineExit } from "../../drivers/machine.ts";
import { fail } from "../../fail.ts";

/** What an agent may say, and the code under which it crosses the API. Any other code is the agent's fault: it runs inside. */
const AGENT_CODES = new Map<string, ErrorCode>(
  Object.entries({
    invalid_request: "invalid_request",
    exec_failed: "exec_failed",
    exec_not_found: "exec_not_found",
    file_not_found: "file_not_found",
    file_exists: "file_exists",
    file_invalid: "file_invalid",
    not_a_directory: "file_invalid",
    is_a_directory: "file_invalid",
    permission_denied: "permission_denied",
    disk_full: "disk_full",
    port_refused: "port_refused",
    machine_state: "machine_state",
    machine_lost: "machine_lost",
  }),
);
const LONGEST_TEXT = 4096;

/** The connection to a shim ended before the answer; whether the request was carried out is not known. */
export class ConnectionLost extends Error {}

/** The error in a reply or at a stream's end. */
export function agentFailure(error: unknown): SandpoolError {
  const { code, message, hint, details } = (error ?? {}) as Partial<Record<keyof WireError, unknown>>;
  if (typeof code !== "string" || typeof message !== "string") {
    return fail("agent_failed", "The machine's agent answered with a failure that names no error.", {
      hint: "The agent and the server may be of different versions; delete the machine and make it anew.",
    });
  }
  const known = AGENT_CODES.get(code);
  const told = typeof details === "object" && details !== null ? (details as Record<string, unknown>) : {};
  return fail(known ?? "agent_failed", message.slice(0, LONGEST_TEXT), {
    hint: typeof hint === "string" ? hint.slice(0, LONGEST_TEXT) : (HINTS.get(code) ?? "See the machine's logs."),
    details: known === code ? told : { ...told, agent_code: code.slice(0, 100) },
  });
}

/** What the agent leaves to be understood. */
const HINTS = new Map(
  Object.entries({
    invalid_request: "Mend the request; nothing was done.",
    exec_failed: "See that the program, the folder and the user exist inside the machine.",
    file_not_found: "List the folder above it to see what is there; a relative path is not resolved here.",
    file_exists: "Remove it first, or ask to replace it.",
    file_invalid: "See what the path is with a stat.",
    not_a_directory: "Name a folder.",
    is_a_directory: "Name a file; a folder travels as a tar.",
    permission_denied: "Name another user of the machine, or change the mode.",
    disk_full: "The machine's own disk is full: remove something in it, or make one with a larger disk.",
  }),
);

/** A driver's error under a code that crosses the API. */
export function driverFailure(error: unknown): unknown {
  if (!(error instanceof DriverError)) return error;
  const codes: Partial<Record<DriverError["code"], ErrorCode>> = {
    driver_unavailable: "driver_unavailable",
    sandbox_spec_invalid: "invalid_request",
    machine_unknown: "machine_state",
    sandbox_disk_failed: "internal",
  };
  return fail(codes[error.code] ?? "internal", error.message, {
    hint: error.hint,
    details: { ...error.details, driver_code: error.code },
    cause: error,
  });
}

/** The machine is no more. */
export function machineLost(id: string, exit: MachineExit, operation: string): SandpoolError {
  return fail("machine_lost", `Machine ${id} ended (${describeExit(exit)}); "${operation}" was not answered.`, {
    hint: "Start the machine again; its disk is that of its last save. Its logs may say why it ended.",
    details: {
      operation,
      exit: { code: exit.code, signal: exit.signal, oom_killed: exit.oom_killed, started: exit.started },
    },
  });
}

export function describeExit(exit: MachineExit): string {
  if (exit.oom_killed) return "out of memory";
  if (exit.signal !== null) return `signal ${exit.signal}`;
  return exit.code === null ? "nobody could learn how" : `exit code ${exit.code}`;
}

/** The machine lives, its connection does not. */
export function connectionBroken(id: string, operation: string, hint: string): SandpoolError {
  return fail("agent_failed", `The connection to machine ${id} broke during "${operation}"; the machine runs on.`, {
    hint,
    details: { operation },
  });
}

/** The server is on its way out, or the machine is being deleted. */
export function sessionClosed(id: string, isRemoved: boolean): SandpoolError {
  if (isRemoved) {
    return fail("machine_lost", `Machine ${id} was deleted.`, { hint: "Make a new one.", details: { deleted: true } });
  }
  return fail("server_closing", `The server lets go of machine ${id}; the machine runs on.`, {
    hint: "Ask again when the server is back.",
  });
}

export function tooLate(id: string, operation: string, timeoutMs: number): SandpoolError {
  return fail(
    "deadline_passed",
    `The agent of machine ${id} did not answer "${operation}" within ${timeoutMs / 1000} s.`,
    {
      hint: "The host may be overloaded, or the machine at the end of its memory; its logs may say more.",
      details: { operation, deadline_s: timeoutMs / 1000 },
    },
  );
}

export function creditPassed(stream: number): SandpoolError {
  return fail("agent_failed", `The machine's agent sent more on stream ${stream} than it was allowed to.`, {
    hint: "The agent is not the one this server came with; delete the machine.",
  });
}

export function isLost(error: unknown): boolean {
  return error instanceof SandpoolError && error.code === "machine_lost";
}
