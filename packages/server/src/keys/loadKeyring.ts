import type { Store } from "../store/openStore.ts";
import { Keyring } from "./keyring.ts";

/** Every key that was not revoked. */
export async function loadKeyring(store: Store): Promise<Keyring> {
  const rows = await store
    .selectFrom("keys")
    .selectAll()
    .where("revoked_at", "is", null)
    .orderBy("created_at")
    .execute();
  return new Keyring(
    rows.map(({ revoked_at: _, admin, hash, ...row }) => ({ ...row, admin: admin === 1, hash: Buffer.from(hash) })),
  );
}
