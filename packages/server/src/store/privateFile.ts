import { closeSync, openSync } from "node:fs";

/**
 * Makes an empty file that only this user may open, before SQLite would make it with the umask's mode.
 * One that exists is not touched: closing any descriptor of it would drop this process's own locks on it.
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
