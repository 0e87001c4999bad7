import type { MachineReason } from "@sandpool/protocol";
import type { LiveMachine, MachineExit } from "@sandpool/worker";
import { type MachineContext, serverItself } from "./context.ts";
import { keepLogs, savedDisk } from "./disk.ts";
import type { MachineEntry } from "./entry.ts";
import { machineLost } from "./states.ts";

/** From now on the machine's end, whenever it comes, is noticed. */
export function watchEnd(context: MachineContext, entry: MachineEntry, live: LiveMachine): void {
  void live.ended.then((exit) => {
    if (entry.live !== live || entry.record.state !== "running") return;
    recordEnd(context, entry, reasonOf(exit)).catch((error: unknown) => {
      context.logger.error({ err: error, machine: entry.id }, "the end of a machine could not be recorded");
    });
  });
}

export function reasonOf(exit: MachineExit): MachineReason {
  return exit.oom_killed ? "out_of_memory" : "crashed";
}

/** It ended by itself: it is `stopped`, says why, and what it held on the host is freed. */
export async function recordEnd(context: MachineContext, entry: MachineEntry, reason: MachineReason): Promise<void> {
  const { registry, journal } = context;
  registry.setGone(entry, machineLost(entry.record, `ended: ${reason}`));
  await journal.audited(`machine.${reason}`, serverItself(entry), entry.id, async () => {
    // Told at once; the next start waits until the rest is freed.
    const told = registry.go(entry, "stopped", { reason, operationId: null });
    const freed = entry.exclusively(() => free(context, entry));
    await told;
    await freed;
  });
}

/** Frees all of a machine that does not run but its saved disk, and notes from when that is. */
export async function free(context: MachineContext, entry: MachineEntry): Promise<void> {
  await keepLogs(context, entry.id);
  await context.host.remove(entry.id);
  const disk = await savedDisk(context.dataDir, entry.id);
  if (entry.record.state === "deleting") return;
  // The file is the truth: a server may have died between writing it and noting its time.
  const times = [entry.record.diskSavedAt, disk?.savedAt].filter((time) => typeof time === "string");
  const diskSavedAt = disk === null ? null : (times.sort().at(-1) ?? null);
  if (diskSavedAt !== entry.record.diskSavedAt) await context.registry.amend(entry, { diskSavedAt });
}
