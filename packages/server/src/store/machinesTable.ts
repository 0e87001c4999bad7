import type { MachineReason, MachineState } from "@sandpool/protocol";
import { type Kysely, sql } from "kysely";

/** A machine, or the mark of one that was deleted (`plan` and `details` are then `{}`, `secret` is empty). Times are ISO 8601 in UTC. */
export interface MachinesTable {
  id: string;
  owner: string;
  name: string;
  state: MachineState | "deleted";
  reason: MachineReason | null;
  operation_id: string | null;
  image_id: string;
  image_name: string;
  driver: string;
  /** JSON: `MachinePlan`. */
  plan: string;
  /** JSON: what only the server knows of it. */
  details: string;
  created_at: string;
  lifetime_s: number | null;
  lease_s: number | null;
  lease_until: string | null;
  disk_saved_at: string | null;
  secret: string;
  generation: number;
  /** The boot of the host in which it was last started. */
  boot_id: string | null;
  ended_at: string | null;
}

export async function createMachinesTable(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("machines")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("owner", "text", (column) => column.notNull())
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("reason", "text")
    .addColumn("operation_id", "text")
    .addColumn("image_id", "text", (column) => column.notNull())
    .addColumn("image_name", "text", (column) => column.notNull())
    .addColumn("driver", "text", (column) => column.notNull())
    .addColumn("plan", "text", (column) => column.notNull())
    .addColumn("details", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("lifetime_s", "real")
    .addColumn("lease_s", "real")
    .addColumn("lease_until", "text")
    .addColumn("disk_saved_at", "text")
    .addColumn("secret", "text", (column) => column.notNull())
    .addColumn("generation", "integer", (column) => column.notNull())
    .addColumn("boot_id", "text")
    .addColumn("ended_at", "text")
    .execute();
  // A name is free again once its machine is deleted.
  await sql`CREATE UNIQUE INDEX machines_name ON machines (owner, name) WHERE state <> 'deleted'`.execute(db);
}
