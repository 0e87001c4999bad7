import { randomInt } from "node:crypto";
import { SandpoolError } from "@sandpool/protocol";
import type { Identity } from "../keys/keyring.ts";
import type { MachineContext } from "./context.ts";
import type { MachineProgress } from "./create.ts";
import { removeDisk } from "./disk.ts";
import type { MachineEntry } from "./entry.ts";
import type { CreationKey } from "./machineStore.ts";
import { type CheckedRequest, newRecord } from "./plan.ts";

export interface MakeInput {
  caller: Identity;
  checked: CheckedRequest;
  /** Null: one is made. */
  name: string | null;
  key: CreationKey | null;
  /** Of the whole request. */
  controller: AbortController;
  progress: (progress: MachineProgress) => void;
  /** Called once it has its name and its place; what fails before is a refusal. */
  begun: () => void;
}

/**
 * Makes one machine of a checked request and starts it. Whatever fails, nothing is left of it, its name neither.
 * @throws `quota`, `name_taken`, or what the host failed with
 */
export async function makeMachine(context: MachineContext, input: MakeInput): Promise<MachineEntry> {
  const { registry, journal, queue, limits } = context;
  const { caller, checked } = input;
  requireQuota(context, caller.owner, limits.machinesPerOwner);
  const name = input.name ?? freeName(context, caller.owner);
  if (registry.isNameTaken(caller.owner, name)) throw nameTaken(name);
  const release = queue.reserve();
  try {
    // The name is taken before the first wait.
    const adding = registry.add(newRecord(checked, caller.owner, name));
    const entry = await adding;
    input.begun();
    const operation = await journal.begin("machine.create", caller, entry.id);
    try {
      await entry.exclusively(() => launch(context, entry, input, operation.id));
      await operation.done(entry.id);
      return entry;
    } catch (error) {
      await operation.failed(error instanceof SandpoolError ? error.code : "internal");
      throw error;
    }
  } finally {
    release();
  }
}

async function launch(
  context: MachineContext,
  entry: MachineEntry,
  { controller, key, progress }: MakeInput,
  operationId: string,
): Promise<void> {
  const { host, registry, queue, bootId } = context;
  const signal = AbortSignal.any([controller.signal, entry.abort.signal]);
  try {
    await registry.amend(entry, { operationId });
    const live = await queue.run(signal, () =>
      host.create(entry.record.plan, {
        signal,
        onProgress: (step) => progress({ event: "progress", ...step }),
      }),
    );
    signal.throwIfAborted();
    const { leaseSeconds } = entry.record;
    const leaseUntil = leaseSeconds === null ? null : new Date(Date.now() + leaseSeconds * 1000).toISOString();
    await registry.go(entry, "running", { leaseUntil, operationId: null, bootId }, key);
    registry.setLive(entry, live);
  } catch (error) {
    await rollBack(context, entry);
    throw signal.aborted ? signal.reason : error;
  }
}

async function rollBack(context: MachineContext, entry: MachineEntry): Promise<void> {
  const { host, registry, logger } = context;
  try {
    await host.remove(entry.id);
    await removeDisk(context.dataDir, entry.id);
    await registry.forget(entry);
  } catch (error) {
    logger.error({ err: error, machine: entry.id }, "something is left of a creation that failed");
    if (entry.record.state === "creating") await registry.go(entry, "failed", { operationId: null });
  }
}

function requireQuota({ registry }: MachineContext, owner: string, limit: number): void {
  const used = registry.ofOwner(owner).length;
  if (used < limit) return;
  throw new SandpoolError("quota", `you have ${used} machines, at most ${limit} are allowed`, {
    hint: "delete some, or start the server with a larger --machines",
    details: { used, limit },
  });
}

const NAME_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

function freeName({ registry }: MachineContext, owner: string): string {
  for (;;) {
    const name = `machine-${Array.from({ length: 6 }, () => NAME_ALPHABET[randomInt(32)]).join("")}`;
    if (!registry.isNameTaken(owner, name)) return name;
  }
}

function nameTaken(name: string): SandpoolError {
  return new SandpoolError("name_taken", `you have a machine named ${name} already`, {
    hint: `choose another name, or delete that one (DELETE /v1/machines/${name})`,
    details: { name },
  });
}
