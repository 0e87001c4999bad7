import { SandpoolError } from "@sandpool/protocol";
import { requireSameRequest } from "../pools/idempotency.ts";
import type { Store } from "../store/openStore.ts";
import { now } from "../store/operations.ts";
import type { CreationKey } from "./machineStore.ts";

const REVOKED = "revoked";

/** Which machine a create with an Idempotency-Key made, for 24 hours; written with the machine itself, see `MachineStore.updateCreated`. */
export class CreationRecords {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The machine an earlier create with this key made; null if none. @throws `conflict` for another request, `machine_lost` for a key that was revoked */
  async find(owner: string, { key, requestHash }: CreationKey): Promise<string | null> {
    const base = key.split(" ")[0] ?? key;
    const rows = await this.#store
      .selectFrom("idempotency")
      .selectAll()
      .where("owner", "=", owner)
      .where((row) =>
        // The key itself, and what a batch made of it: the key, a space, a number.
        row.or([row("key", "=", base), row.and([row("key", ">=", `${base} `), row("key", "<", `${base}!`)])]),
      )
      .execute();
    if (rows.some((row) => row.object_id === REVOKED)) throw this.gone(base, null);
    for (const row of rows) this.requireSame(base, row.request_hash, requestHash);
    return rows.find((row) => row.key === key)?.object_id ?? null;
  }

  requireSame(key: string, earlierHash: string, requestHash: string): void {
    requireSameRequest(key, earlierHash, requestHash);
  }

  /** The key makes nothing any more. */
  async revoke(owner: string, key: string): Promise<void> {
    await this.#store
      .replaceInto("idempotency")
      .values({ owner, key, request_hash: "", object_id: REVOKED, created_at: now() })
      .execute();
  }

  gone(key: string, id: string | null): SandpoolError {
    const what = id === null ? "was deleted before it was made" : `(${id}) was deleted`;
    return new SandpoolError("machine_lost", `the machine of the Idempotency-Key ${JSON.stringify(key)} ${what}`, {
      hint: "use a new key for a new machine",
      details: { id },
    });
  }
}
