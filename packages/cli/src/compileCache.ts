import { lstatSync, mkdirSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";

/** Keeps compiled code between commands: half of what a small command costs. Without a folder that is safe, nothing is kept. */
export function keepCompiledCode(): void {
  const base = process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache");
  if (!isAbsolute(base) || process.env.NODE_DISABLE_COMPILE_CACHE !== undefined) return;
  const folder = join(base, "sandpool", "compiled");
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (isOwn(folder)) enableCompileCache(folder);
  } catch {
    // A home that cannot be written is no reason to refuse a command.
  }
}

/** Whoever may write the folder, or put another in its place, could make this account run code: only it itself and root may. */
function isOwn(folder: string): boolean {
  const account = process.geteuid?.();
  if (account === undefined) return false;
  for (let path = folder; ; path = dirname(path)) {
    const { uid, mode } = lstatSync(path);
    const isDirectory = (mode & 0o170000) === 0o040000;
    // A sticky folder lets nobody move what is another's.
    const othersMayReplace = (mode & 0o022) !== 0 && (path === folder || (mode & 0o1000) === 0);
    if (!isDirectory || othersMayReplace || (uid !== account && uid !== 0)) return false;
    if (path === dirname(path)) return true;
  }
}
