import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { SandpoolError } from "@sandpool/protocol";
import { makePrivateFile } from "./privateFile.ts";

/** Held while a server uses a data folder. */
export interface DataFolderLock {
  release(): void;
}

/**
 * Makes sure that one server alone uses the folder. The lock is SQLite's own file lock, so the kernel frees it however
 * the process ends; the pid file beside it only names the holder. Throws `data_folder_locked`.
 */
export function lockDataFolder(dataDir: string): DataFolderLock {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const pidFile = join(dataDir, "server.pid");
  const lockFile = join(dataDir, "server.lock");
  makePrivateFile(lockFile);
  const lock = new DatabaseSync(lockFile);
  try {
    lock.exec("PRAGMA busy_timeout=0; PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE;");
  } catch (cause) {
    lock.close();
    throw alreadyLocked(dataDir, pidFile, cause);
  }
  writeFileSync(pidFile, `${process.pid}\n`, { mode: 0o600 });
  return {
    release() {
      rmSync(pidFile, { force: true });
      lock.close();
    },
  };
}

function alreadyLocked(dataDir: string, pidFile: string, cause: unknown): SandpoolError {
  const pid = readPid(pidFile);
  const holder = pid === null ? "another process" : `process ${pid}`;
  return new SandpoolError("data_folder_locked", `the data folder ${dataDir} is in use by ${holder}`, {
    hint: "stop that server, or give this one its own data folder",
    details: { pid, data_dir: dataDir },
    cause,
  });
}

function readPid(pidFile: string): number | null {
  try {
    const pid = Number(readFileSync(pidFile, "utf8"));
    return Number.isInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}
