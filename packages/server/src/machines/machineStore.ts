import type { Store } from "../store/openStore.ts";
import { now } from "../store/operations.ts";
import { fromRow, type MachineRecord, toRow } from "./record.ts";

/** How long a deleted machine's id is remembered, so that a second delete finds it. */
const REMEMBER_MS = 24 * 3600_000;

export interface DeletedMark {
  id: string;
  owner: string;
  name: string;
}

/** Machines on disk: written before and after every change, read at the start only. */
export class MachineStore {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async load(): Promise<{ records: MachineRecord[]; deleted: DeletedMark[] }> {
    const oldest = new Date(Date.now() - REMEMBER_MS).toISOString();
    await this.#store.deleteFrom("machines").where("state", "=", "deleted").where("ended_at", "<", oldest).execute();
    const rows = await this.#store.selectFrom("machines").selectAll().orderBy("created_at").execute();
    return {
      records: rows.filter((row) => row.state !== "deleted").map(fromRow),
      deleted: rows.filter((row) => row.state === "deleted").map(({ id, owner, name }) => ({ id, owner, name })),
    };
  }

  async insert(record: MachineRecord): Promise<void> {
    await this.#store.insertInto("machines").values(toRow(record)).execute();
  }

  async update(record: MachineRecord): Promise<void> {
    await this.#store.updateTable("machines").set(toRow(record)).where("id", "=", record.id).execute();
  }

  /** The machine runs, and the key that asked for it names it from now on: both or neither. */
  async updateCreated(record: MachineRecord, key: CreationKey | null): Promise<void> {
    if (key === null) return this.update(record);
    await this.#store.transaction().execute(async (change) => {
      await change.updateTable("machines").set(toRow(record)).where("id", "=", record.id).execute();
      await change
        .replaceInto("idempotency")
        .values({
          owner: record.owner,
          key: key.key,
          request_hash: key.requestHash,
          object_id: record.id,
          created_at: now(),
        })
        .execute();
    });
  }

  /** Nothing of it is left but the mark that it was. */
  async markDeleted(record: MachineRecord): Promise<void> {
    await this.#store
      .updateTable("machines")
      .set({
        state: "deleted",
        reason: null,
        operation_id: null,
        plan: "{}",
        details: "{}",
        secret: "",
        ended_at: now(),
      })
      .where("id", "=", record.id)
      .execute();
  }
}

/** An Idempotency-Key with the hash of the request that came with it. */
export interface CreationKey {
  key: string;
  requestHash: string;
}
