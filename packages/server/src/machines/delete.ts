import { SandpoolError } from "@sandpool/protocol";
import type { Identity } from "../keys/keyring.ts";
import type { MachineContext } from "./context.ts";
import { removeDisk } from "./disk.ts";
import type { MachineEntry } from "./entry.ts";
import { machineLost } from "./states.ts";

/**
 * Removes a machine from whatever state, its disk too; what is under way with it is ended first. Resolves when nothing is left.
 * Where something is left it is `failed`, and a further delete tries again.
 */
export function deleteMachine(context: MachineContext, entry: MachineEntry, caller: Identity): Promise<void> {
  entry.removal ??= deleteNow(context, entry, caller).finally(() => {
    entry.removal = null;
  });
  return entry.removal;
}

async function deleteNow(context: MachineContext, entry: MachineEntry, caller: Identity): Promise<void> {
  const { registry, journal, host } = context;
  const operation = await journal.begin("machine.delete", caller, entry.id);
  try {
    // A server that died while it deleted finds the machine so.
    if (entry.record.state !== "deleting") await registry.go(entry, "deleting", { operationId: operation.id });
    const why = machineLost(entry.record, "was deleted");
    const { live } = entry;
    registry.setGone(entry, why);
    entry.abort.abort(why);
    // A disk that is being saved need not be, nor a machine taken over: without the machine both end.
    if (live !== null || entry.adopting !== null) await host.remove(entry.id).catch(() => {});
    await entry.exclusively(() => remove(context, entry));
    await operation.done(entry.id);
  } catch (error) {
    await operation.failed(error instanceof SandpoolError ? error.code : "internal");
    if (entry.record.state === "deleting") await registry.go(entry, "failed", { operationId: null });
    throw error;
  }
}

async function remove(context: MachineContext, entry: MachineEntry): Promise<void> {
  await context.host.remove(entry.id);
  await removeDisk(context.dataDir, entry.id);
  await context.registry.forget(entry);
}
