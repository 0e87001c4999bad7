import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SandpoolError } from "@sandpool/protocol";
import { Kysely } from "kysely";
import { Migrator } from "kysely/migration";
import { nodeSqliteDialect } from "./dialect.ts";
import { migrations } from "./migrations.ts";
import { makePrivateFile } from "./privateFile.ts";
import type { Tables } from "./tables.ts";

export type Store = Kysely<Tables>;

/**
 * Opens the store in the data folder and brings it up to date. What was committed survives a power cut
 * (WAL with synchronous=FULL). Throws `data_folder_unknown` where a newer version wrote it.
 */
export async function openStore(dataDir: string): Promise<Store> {
  const path = join(dataDir, "sandpool.sqlite");
  makePrivateFile(path);
  const database = new DatabaseSync(path, { timeout: 5_000 });
  database.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;");
  const store = new Kysely<Tables>({ dialect: nodeSqliteDialect(database) });
  const { error } = await new Migrator({ db: store, provider: migrations }).migrateToLatest();
  if (error === undefined) return store;
  await store.destroy();
  throw new SandpoolError(
    "data_folder_unknown",
    `the store ${path} could not be brought up to date: ${String(error)}`,
    {
      hint: "start the version that last used this data folder, or choose another folder",
      cause: error,
    },
  );
}
