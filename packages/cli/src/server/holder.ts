import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** The pid of the server that holds a data folder; null when none does. The lock decides, the pid file only names its holder. */
export function findHolder(dataDir: string): number | null {
  const lockFile = join(dataDir, "server.lock");
  if (!existsSync(lockFile) || !isLocked(lockFile)) return null;
  try {
    const pid = Number(readFileSync(join(dataDir, "server.pid"), "utf8"));
    return Number.isSafeInteger(pid) && pid > 1 ? pid : null;
  } catch {
    return null;
  }
}

function isLocked(lockFile: string): boolean {
  const database = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    database.exec("BEGIN EXCLUSIVE; ROLLBACK");
    return false;
  } catch {
    return true;
  } finally {
    database.close();
  }
}
