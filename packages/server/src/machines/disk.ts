import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { SavedDisk } from "@sandpool/worker";
import type { MachineContext } from "./context.ts";
import type { MachineEntry } from "./entry.ts";

/** What outlives a machine's sandbox: its saved disk and its last words. */
export function diskFolder(dataDir: string, id: string): string {
  return join(resolve(dataDir), "machines", id);
}

function diskFile(dataDir: string, id: string): string {
  return join(diskFolder(dataDir, id), "disk.tar.zst");
}

/** The disk to start with; null where none was ever saved. */
export async function savedDisk(dataDir: string, id: string): Promise<{ file: string; savedAt: string } | null> {
  const file = diskFile(dataDir, id);
  const found = await stat(file).catch(() => null);
  return found === null ? null : { file, savedAt: found.mtime.toISOString() };
}

/** Writes the running machine's disk and notes from when it is. Only while nothing else is done with it. */
export async function saveDisk(context: MachineContext, entry: MachineEntry): Promise<SavedDisk> {
  const { live, id } = entry;
  if (live === null) throw new Error(`machine ${id} does not run`);
  await mkdir(diskFolder(context.dataDir, id), { recursive: true, mode: 0o711 });
  const saved = await live.saveDisk(diskFile(context.dataDir, id));
  await context.registry.amend(entry, { diskSavedAt: new Date(saved.savedAt).toISOString() });
  return saved;
}

/** The last words go with the sandbox; these stay until it starts again. */
export async function keepLogs(context: MachineContext, id: string): Promise<void> {
  const words = await context.host.readLogs(id).catch(() => Buffer.alloc(0));
  if (words.length === 0) return;
  const folder = diskFolder(context.dataDir, id);
  await mkdir(folder, { recursive: true, mode: 0o711 });
  await writeFile(join(folder, "last-words"), words, { mode: 0o600 });
}

export async function readLogs(context: MachineContext, id: string): Promise<Buffer> {
  const words = await context.host.readLogs(id).catch(() => Buffer.alloc(0));
  if (words.length > 0) return words;
  return readFile(join(diskFolder(context.dataDir, id), "last-words")).catch(() => Buffer.alloc(0));
}

export async function removeDisk(dataDir: string, id: string): Promise<void> {
  await rm(diskFolder(dataDir, id), { recursive: true, force: true });
}
