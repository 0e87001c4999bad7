import { setTimeout as sleep } from "node:timers/promises";
import { type MachineReason, SandpoolError } from "@sandpool/protocol";
import type { LiveMachine } from "@sandpool/worker";
import type { Identity } from "../keys/keyring.ts";
import type { MachineContext } from "./context.ts";
import { saveDisk } from "./disk.ts";
import { free, reasonOf, watchEnd } from "./ended.ts";
import type { MachineEntry } from "./entry.ts";
import { machineLost, requireFit } from "./states.ts";

const POLL_MS = 20;

/**
 * Ends the machine's programs, saves its disk, ends the machine. One that is stopped already stays so. Where the disk cannot
 * be saved it runs on, without its programs.
 * @throws `machine_state`, `disk_full`, `machine_lost`
 */
export async function stopMachine(context: MachineContext, entry: MachineEntry, caller: Identity): Promise<void> {
  await entry.adopting;
  const joined = entry.underWay("stop");
  if (joined !== null) return joined;
  if (entry.record.state === "stopped") return;
  requireFit(entry.record, "stop");
  const done = entry
    .exclusively(() => stopNow(context, entry, caller))
    .finally(() => {
      entry.change = null;
    });
  entry.change = { verb: "stop", done };
  return done;
}

async function stopNow(context: MachineContext, entry: MachineEntry, caller: Identity): Promise<void> {
  // It may have ended by itself while this waited.
  if (entry.record.state === "stopped") return;
  requireFit(entry.record, "stop");
  const operation = await context.journal.begin("machine.stop", caller, entry.id);
  try {
    await context.registry.go(entry, "stopping", { operationId: operation.id });
    await finishStop(context, entry);
    await operation.done(entry.id);
  } catch (error) {
    await operation.failed(error instanceof SandpoolError ? error.code : "internal");
    throw error;
  }
}

/** From `stopping` to `stopped`; a machine that ends meanwhile is stopped all the same, and says why. */
export async function finishStop(context: MachineContext, entry: MachineEntry): Promise<void> {
  const { registry, limits } = context;
  const { live } = entry;
  if (live === null) throw new Error(`machine ${entry.id} is stopping and not connected`);
  let reason: MachineReason = "stopped";
  void live.ended.then((exit) => {
    reason = reasonOf(exit);
  });
  try {
    await endPrograms(live, limits.machineStopMs);
    await saveDisk(context, entry);
    await live.stop(limits.machineStopMs);
    // It was asked for.
    reason = "stopped";
  } catch (error) {
    if (!(await hasEnded(live))) {
      if (entry.record.state === "stopping") await registry.go(entry, "running", { operationId: null });
      watchEnd(context, entry, live);
      throw error;
    }
  }
  registry.setGone(entry, machineLost(entry.record, "was stopped"));
  await free(context, entry).catch((error: unknown) => {
    // The next start frees it again before anything else.
    context.logger.error({ err: error, machine: entry.id }, "something is left of a machine that stopped");
  });
  await registry.go(entry, "stopped", { reason, operationId: null });
}

/** Programs end before the disk is saved, so that what they write on their way out is on it. */
async function endPrograms(live: LiveMachine, graceMs: number): Promise<void> {
  const deadline = performance.now() + graceMs;
  for (let signal = "TERM"; ; signal = "KILL") {
    let running = await runningPrograms(live);
    if (running.length === 0) return;
    await Promise.allSettled(running.map((id) => live.signalExec(id, signal, true)));
    if (signal === "KILL") return;
    while (running.length > 0 && performance.now() < deadline) {
      await sleep(POLL_MS);
      running = await runningPrograms(live);
    }
  }
}

async function runningPrograms(live: LiveMachine): Promise<string[]> {
  const execs = await live.listExecs();
  return execs.filter(({ state }) => state === "running" || state === "detached").map(({ id }) => id);
}

/** Whether it ended, a moment after a call on it failed. */
async function hasEnded(live: LiveMachine): Promise<boolean> {
  return Promise.race([live.ended.then(() => true), sleep(250).then(() => false)]);
}
