import { type CreatedKey, type CreateKeyRequest, type KeyDescription, makeId, SandpoolError } from "@sandpool/protocol";
import type { Store } from "../store/openStore.ts";
import { now, type OperationJournal } from "../store/operations.ts";
import type { Identity, Keyring } from "./keyring.ts";
import { hashSecret, makeSecret } from "./secret.ts";

export const FIRST_OWNER = "local";

/** Creates, lists and revokes keys; store and keyring change together. */
export class KeyManager {
  readonly #store: Store;
  readonly #keyring: Keyring;
  readonly #journal: OperationJournal;

  constructor(store: Store, keyring: Keyring, journal: OperationJournal) {
    this.#store = store;
    this.#keyring = keyring;
    this.#journal = journal;
  }

  /** Only an administrator's key may name another owner. */
  async create(caller: Identity, request: CreateKeyRequest): Promise<CreatedKey> {
    const owner = request.owner ?? caller.owner;
    if (owner !== caller.owner && !caller.admin) {
      throw new SandpoolError("forbidden", `this key may make keys for "${caller.owner}" only, not for "${owner}"`, {
        hint: "use an administrator's key, such as the one of the first start",
        details: { owner: caller.owner, received: owner },
      });
    }
    const operation = await this.#journal.begin("key.create", caller);
    const made = await this.insert(owner, request.name, caller.admin && owner === caller.owner);
    await operation.done(made.id);
    return made;
  }

  /** Stores a new key; the only moment its text exists here. */
  async insert(owner: string, name: string, admin: boolean): Promise<CreatedKey> {
    const key = makeSecret();
    const hash = hashSecret(key);
    const description = { id: makeId("key"), owner, name, admin, created_at: now() };
    await this.#store
      .insertInto("keys")
      .values({ ...description, admin: admin ? 1 : 0, hash, revoked_at: null })
      .execute();
    this.#keyring.add({ ...description, hash });
    return { ...description, key };
  }

  list(caller: Identity): KeyDescription[] {
    return this.#keyring.list().filter((key) => caller.admin || key.owner === caller.owner);
  }

  async revoke(caller: Identity, keyId: string): Promise<void> {
    const keys = this.#keyring.list();
    const target = keys.find((key) => key.id === keyId && (caller.admin || key.owner === caller.owner));
    if (!target) {
      throw new SandpoolError("key_not_found", `there is no key ${JSON.stringify(keyId)} of this owner`, {
        hint: "GET /v1/keys lists them",
      });
    }
    if (target.admin && keys.filter((key) => key.admin).length === 1) {
      throw new SandpoolError("conflict", `${keyId} is the last administrator's key`, {
        hint: "make another one first, then revoke this one with it",
      });
    }
    const operation = await this.#journal.begin("key.revoke", caller, keyId);
    await this.#store.updateTable("keys").set({ revoked_at: now() }).where("id", "=", keyId).execute();
    this.#keyring.remove(keyId);
    await operation.done(keyId);
  }
}
