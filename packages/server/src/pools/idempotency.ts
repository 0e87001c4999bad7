import { createHash } from "node:crypto";
import { SandpoolError } from "@sandpool/protocol";
import type { Store } from "../store/openStore.ts";
import { now } from "../store/operations.ts";

const KEEP_MS = 24 * 3600_000;

/** Which pool a create with an Idempotency-Key made. Only successes are recorded: a failed create may be tried again. */
export class IdempotencyRecords {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** The pool an earlier create with this key made; null if none. Throws `conflict` if that request was another one. */
  async find(owner: string, key: string, requestHash: string): Promise<string | null> {
    const row = await this.#store
      .selectFrom("idempotency")
      .selectAll()
      .where("owner", "=", owner)
      .where("key", "=", key)
      .executeTakeFirst();
    if (row === undefined) return null;
    requireSameRequest(key, row.request_hash, requestHash);
    return row.object_id;
  }

  async record(owner: string, key: string, requestHash: string, objectId: string): Promise<void> {
    await this.#store
      .replaceInto("idempotency")
      .values({ owner, key, request_hash: requestHash, object_id: objectId, created_at: now() })
      .execute();
  }

  async dropOld(): Promise<void> {
    const oldest = new Date(Date.now() - KEEP_MS).toISOString();
    await this.#store.deleteFrom("idempotency").where("created_at", "<", oldest).execute();
  }
}

/** Throws `conflict` where one key came with two different requests. */
export function requireSameRequest(key: string, earlierHash: string, requestHash: string): void {
  if (earlierHash === requestHash) return;
  throw new SandpoolError("conflict", `the Idempotency-Key ${JSON.stringify(key)} was used for another request`, {
    hint: "use a new key for a new request; repeat the exact bytes to repeat one",
  });
}

export function hashRequest(rawBody: Buffer): string {
  return createHash("sha256").update(rawBody).digest("hex");
}

/** The header's value; null if there is none. Throws `invalid_request` unless it is 1 to 200 visible characters. */
export function readIdempotencyKey(header: string | string[] | undefined): string | null {
  if (header === undefined) return null;
  if (typeof header === "string" && /^[\x21-\x7e]{1,200}$/.test(header)) return header;
  throw new SandpoolError("invalid_request", `Idempotency-Key is ${JSON.stringify(header).slice(0, 240)}`, {
    hint: "use 1 to 200 visible ASCII characters, such as a UUID",
  });
}
