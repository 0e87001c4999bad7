import { SandpoolError } from "@sandpool/protocol";
import type { Identity } from "../keys/keyring.ts";
import { requireRoom } from "./admission.ts";
import type { MachineContext } from "./context.ts";
import { savedDisk } from "./disk.ts";
import type { MachineEntry } from "./entry.ts";
import { requireFit } from "./states.ts";

/**
 * Starts a stopped machine with its saved disk, or an empty one where none was saved. One that runs already runs on.
 * @throws `machine_state`, `quota`, `disk_full`, `memory_short`, `image_not_found`; it is then stopped as before
 */
export async function startMachine(context: MachineContext, entry: MachineEntry, caller: Identity): Promise<void> {
  await entry.adopting;
  const joined = entry.underWay("start");
  if (joined !== null) return joined;
  if (entry.record.state === "running") return;
  requireFit(entry.record, "start");
  await requireRoom(context.dataDir, context.limits);
  // Another start may have begun while this looked.
  const first = entry.underWay("start");
  if (first !== null) return first;
  requireFit(entry.record, "start");
  const release = context.queue.reserve();
  const done = entry
    .exclusively(() => startNow(context, entry, caller))
    .finally(() => {
      release();
      entry.change = null;
    });
  entry.change = { verb: "start", done };
  return done;
}

async function startNow(context: MachineContext, entry: MachineEntry, caller: Identity): Promise<void> {
  const { host, registry, journal, queue } = context;
  requireFit(entry.record, "start");
  const { reason } = entry.record;
  const operation = await journal.begin("machine.start", caller, entry.id);
  entry.abort = new AbortController();
  const { signal } = entry.abort;
  try {
    await registry.go(entry, "starting", { operationId: operation.id });
    // What its end could not free; nothing, as a rule.
    await host.remove(entry.id);
    const disk = await savedDisk(context.dataDir, entry.id);
    const live = await queue.run(signal, () => host.create(entry.record.plan, { signal, disk: disk?.file ?? null }));
    await registry.go(entry, "running", { reason: null, operationId: null, bootId: context.bootId });
    registry.setLive(entry, live);
    await operation.done(entry.id);
  } catch (error) {
    const cause = signal.aborted ? signal.reason : error;
    await host.remove(entry.id).catch((left: unknown) => {
      context.logger.error({ err: left, machine: entry.id }, "something is left of a start that failed");
    });
    if (entry.record.state === "starting") await registry.go(entry, "stopped", { reason, operationId: null });
    await operation.failed(cause instanceof SandpoolError ? cause.code : "internal");
    throw cause;
  }
}
