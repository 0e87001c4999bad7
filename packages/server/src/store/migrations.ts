import type { Kysely } from "kysely";
import type { Migration, MigrationProvider } from "kysely/migration";
import { createMachinesTable } from "./machinesTable.ts";

/** Migrations in order. A released one is never changed: a new one follows it. */
const MIGRATIONS: Record<string, Migration> = {
  "0001_start": { up: createFirstTables },
  "0002_machines": { up: createMachinesTable },
};

export const migrations: MigrationProvider = { getMigrations: async () => MIGRATIONS };

async function createFirstTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("keys")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("owner", "text", (column) => column.notNull())
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("hash", "blob", (column) => column.notNull().unique())
    .addColumn("admin", "integer", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("revoked_at", "text")
    .execute();
  await db.schema
    .createTable("pools")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("owner", "text", (column) => column.notNull())
    .addColumn("name", "text")
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("reason", "text")
    .addColumn("created_at", "text", (column) => column.notNull())
    .addColumn("ended_at", "text")
    .execute();
  await db.schema
    .createTable("operations")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("owner", "text", (column) => column.notNull())
    .addColumn("key_id", "text", (column) => column.notNull())
    .addColumn("kind", "text", (column) => column.notNull())
    .addColumn("object_id", "text")
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("error_code", "text")
    .addColumn("started_at", "text", (column) => column.notNull())
    .addColumn("ended_at", "text")
    .execute();
  await db.schema
    .createTable("idempotency")
    .addColumn("owner", "text", (column) => column.notNull())
    .addColumn("key", "text", (column) => column.notNull())
    .addColumn("request_hash", "text", (column) => column.notNull())
    .addColumn("object_id", "text", (column) => column.notNull())
    .addColumn("created_at", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("idempotency_key", ["owner", "key"])
    .execute();
}
