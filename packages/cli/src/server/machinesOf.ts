import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** Names of the machines that the store of a data folder calls running, or on their way from or to it; none where it has no such store. */
export function runningMachines(dataDir: string): string[] {
  const path = join(dataDir, "sandpool.sqlite");
  if (!existsSync(path)) return [];
  const store = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  try {
    const known = store.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'machines'").get();
    if (known === undefined) return [];
    const rows = store
      .prepare("SELECT name FROM machines WHERE state NOT IN ('deleted', 'stopped', 'failed') ORDER BY name")
      .all();
    return rows.map((row) => String(row.name));
  } finally {
    store.close();
  }
}
