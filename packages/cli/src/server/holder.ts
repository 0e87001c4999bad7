import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/**
 * The pid of the server that holds a data folder; null when none does. The lock decides, the pid file only names its holder;
 * it is read first because trying the lock could get in the way of a server that starts at this very moment.
 */
export function findHolder(dataDir: string): number | null {
  const pid = readPid(join(dataDir, "server.pid"));
  const lockFile = join(dataDir, "server.lock");
  return pid !== null && existsSync(lockFile) && isLocked(lockFile) ? pid : null;
}

function readPid(pidFile: string): number | null {
  try {
    const pid = Number(readFileSync(pidFile, "utf8"));
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
