import { type PatchMachineRequest, SandpoolError } from "@sandpool/protocol";
import type { Identity } from "../keys/keyring.ts";
import type { MachineContext } from "./context.ts";
import type { MachineEntry } from "./entry.ts";
import { requireFit } from "./states.ts";
import { armExpiry } from "./timers.ts";

/** Changes name, labels or lifetime, all of them or none. The host name inside stays what it was. @throws `name_taken`, `invalid_request` */
export async function amendMachine(
  context: MachineContext,
  entry: MachineEntry,
  { name, labels, lifetime }: PatchMachineRequest,
  caller: Identity,
): Promise<void> {
  const { registry, journal } = context;
  const { owner, createdAt } = entry.record;
  if (name !== undefined && name !== entry.record.name && registry.isNameTaken(owner, name)) {
    throw new SandpoolError("name_taken", `you have a machine named ${name} already`, {
      hint: "choose another name",
      details: { name },
    });
  }
  if (typeof lifetime === "number" && Date.parse(createdAt) + lifetime * 1000 <= Date.now()) {
    const ageSeconds = Math.ceil((Date.now() - Date.parse(createdAt)) / 1000);
    throw new SandpoolError(
      "invalid_request",
      `lifetime is ${lifetime} s, the machine is ${ageSeconds} s old already`,
      {
        hint: "it counts from the machine's creation; DELETE removes the machine now",
        details: { received: lifetime, age_s: ageSeconds },
      },
    );
  }
  await journal.audited("machine.amend", caller, entry.id, () =>
    registry.amend(entry, {
      ...(name === undefined ? {} : { name }),
      ...(labels === undefined ? {} : { labels }),
      ...(lifetime === undefined ? {} : { lifetimeSeconds: lifetime }),
    }),
  );
  armExpiry(context, entry);
}

/** Puts the end of the lease off by the lease's own time. @throws `conflict` where the machine has none */
export async function renewLease(context: MachineContext, entry: MachineEntry): Promise<void> {
  const { leaseSeconds, name } = entry.record;
  requireFit(entry.record, "lease");
  if (leaseSeconds === null) {
    throw new SandpoolError("conflict", `the machine ${name} has no lease to renew`, {
      hint: "it stays until it is deleted; a lease is given at its creation",
    });
  }
  await context.registry.amend(entry, { leaseUntil: new Date(Date.now() + leaseSeconds * 1000).toISOString() });
  armExpiry(context, entry);
}
