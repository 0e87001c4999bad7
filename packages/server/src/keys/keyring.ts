import { timingSafeEqual } from "node:crypto";
import type { KeyDescription } from "@sandpool/protocol";
import { hashSecret } from "./secret.ts";

/** Who a request comes from. `revoked` turns true in place, so a connection that cached it notices. */
export interface Identity {
  readonly keyId: string;
  readonly owner: string;
  readonly admin: boolean;
  revoked: boolean;
}

export interface StoredKey extends KeyDescription {
  hash: Buffer;
}

/** The live keys in memory: no store access while a request is checked. */
export class Keyring {
  readonly #byHash = new Map<string, { key: StoredKey; identity: Identity }>();

  constructor(keys: readonly StoredKey[]) {
    for (const key of keys) this.add(key);
  }

  add(key: StoredKey): void {
    const identity = { keyId: key.id, owner: key.owner, admin: key.admin, revoked: false };
    this.#byHash.set(key.hash.toString("hex"), { key, identity });
  }

  /** Forgets a key; requests on connections that already used it are refused from now on. */
  remove(keyId: string): void {
    for (const [hash, { identity }] of this.#byHash) {
      if (identity.keyId !== keyId) continue;
      identity.revoked = true;
      this.#byHash.delete(hash);
    }
  }

  /** Whose secret this is; null if nobody's. */
  identify(secret: string): Identity | null {
    const hash = hashSecret(secret);
    const found = this.#byHash.get(hash.toString("hex"));
    return found && timingSafeEqual(found.key.hash, hash) ? found.identity : null;
  }

  list(): KeyDescription[] {
    return [...this.#byHash.values()].map(({ key: { hash: _, ...description } }) => description);
  }

  owners(): string[] {
    return [...new Set([...this.#byHash.values()].map(({ identity }) => identity.owner))];
  }
}
