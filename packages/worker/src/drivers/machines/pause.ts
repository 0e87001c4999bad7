import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { runTool } from "../../host/run.ts";
import { DriverError } from "../driver.ts";
import { escapeForLog } from "../escape.ts";
import type { MachineFolders } from "./folders.ts";
import { isPaused } from "./states/suspend.ts";

const LIMIT_MS = 60_000;

/** Does `work` while every program of the machine stands still, so that what it sees is of one instant. */
export async function whilePaused<Result>(
  shim: string,
  folders: MachineFolders,
  id: string,
  work: () => Promise<Result>,
): Promise<Result> {
  if (isPaused(folders)) return await work();
  // A server that dies meanwhile leaves the mark, and the next one resumes the machine.
  await writeFile(mark(folders), "", { mode: 0o600 });
  try {
    const paused = await call(shim, folders, "pause", id);
    if (paused !== null) throw failed(id, paused);
    return await work();
  } finally {
    await resumeIfPaused(shim, folders, id);
  }
}

/** Resumes a machine that was paused for a save. */
export async function resumeIfPaused(shim: string, folders: MachineFolders, id: string): Promise<void> {
  if (!existsSync(mark(folders))) return;
  // One that was not paused yet, or has ended meanwhile, refuses: both are fine.
  await call(shim, folders, "resume", id);
  await rm(mark(folders), { force: true });
}

function mark({ folder }: MachineFolders): string {
  return `${folder}/paused-for-save`;
}

async function call(shim: string, { folder }: MachineFolders, verb: string, id: string): Promise<string | null> {
  const { code, signal, stderr } = await runTool(shim, [folder, "--runtime", verb, id], { timeoutMs: LIMIT_MS });
  return code === 0 ? null : `${signal ?? code}: ${escapeForLog(Buffer.from(stderr)).trim().slice(0, 500)}`;
}

function failed(id: string, why: string): DriverError {
  return new DriverError(
    "sandbox_disk_failed",
    `machine ${id} could not be paused to save its disk (${why})`,
    "see that it runs; a stopped machine's disk is that of its last save",
  );
}
