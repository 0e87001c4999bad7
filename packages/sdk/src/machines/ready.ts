import { setTimeout as sleep } from "node:timers/promises";
import type { Machine } from "@sandpool/protocol";
import { MachineStateError, NotReadyError } from "../errors.ts";
import type { Transport } from "../http/transport.ts";
import { checkSeconds, machinePath } from "./options.ts";
import { listPorts } from "./ports.ts";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;
const DEFAULT_SECONDS = 120;
const COMING = new Set(["creating", "starting", "running"]);

export interface ReadyOptions {
  /** Wait until something listens there, too. */
  port?: number;
  /** Default 120. */
  timeoutSeconds?: number;
  signal?: AbortSignal;
}

/** Waits until a machine runs, and with `port` until something inside listens there. */
export async function waitUntilReady(transport: Transport, name: string, options: ReadyOptions): Promise<Machine> {
  const { port, timeoutSeconds = DEFAULT_SECONDS, signal } = options;
  checkSeconds("timeoutSeconds", timeoutSeconds);
  const until = performance.now() + timeoutSeconds * 1000;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    const machine = (await transport.json("GET", machinePath(name), { retries: 3, signal })) as Machine;
    if (!COMING.has(machine.state)) throw notComing(machine);
    if (machine.state === "running" && (port === undefined || (await listens(transport, name, port)))) return machine;
    if (performance.now() + pauseMs > until) throw notReady(machine, port, timeoutSeconds);
    await sleep(pauseMs, undefined, signal && { signal });
  }
}

async function listens(transport: Transport, name: string, port: number): Promise<boolean> {
  return (await listPorts(transport, name)).some((entry) => entry.port === port);
}

function notComing({ name, state, reason }: Machine): MachineStateError {
  const why = reason === null ? "" : ` (${reason})`;
  return new MachineStateError("machine_state", `The machine ${name} is ${state}${why}; expected it to run.`, {
    hint: state === "stopped" ? "Start it with machines.start." : "Make a new one.",
  });
}

function notReady({ name, state }: Machine, port: number | undefined, seconds: number): NotReadyError {
  const missing = state === "running" ? `nothing listens on port ${port}` : `it is ${state}`;
  return new NotReadyError(`The machine ${name} was not ready after ${seconds} s: ${missing}.`, {
    hint: "Nothing is lost: wait again, or look at machines.logs.",
  });
}
