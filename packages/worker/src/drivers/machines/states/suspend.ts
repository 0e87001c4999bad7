import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { runTool } from "../../../host/run.ts";
import { DriverError } from "../../driver.ts";
import { escapeForLog } from "../../escape.ts";
import type { MachineFolders } from "../folders.ts";

const LIMIT_MS = 60_000;

/** Stops every program; the mark is written first, so that a server that dies here leaves a machine that the next one wakes. */
export async function pauseMachine(shim: string, folders: MachineFolders, id: string): Promise<void> {
  if (isPaused(folders)) return;
  await writeFile(mark(folders), String(Date.now()), { mode: 0o600 });
  const problem = await call(shim, folders, "pause", id);
  if (problem === null) return;
  await call(shim, folders, "resume", id);
  await rm(mark(folders), { force: true });
  throw failed(id, "paused", problem);
}

/** @returns how long its programs stood still */
export async function resumeMachine(shim: string, folders: MachineFolders, id: string): Promise<{ awayMs: number }> {
  if (!isPaused(folders)) return { awayMs: 0 };
  const since = Number(await readFile(mark(folders), "utf8").catch(() => "0"));
  const problem = await call(shim, folders, "resume", id);
  // Not paused: its server died between the mark and the pause.
  if (problem !== null && !/not paused|cannot resume/i.test(problem)) throw failed(id, "woken", problem);
  await rm(mark(folders), { force: true });
  return { awayMs: since > 0 ? Math.max(0, Date.now() - since) : 0 };
}

export function isPaused(folders: MachineFolders): boolean {
  return existsSync(mark(folders));
}

function mark({ folder }: MachineFolders): string {
  return `${folder}/paused`;
}

async function call(shim: string, { folder }: MachineFolders, verb: string, id: string): Promise<string | null> {
  const { code, signal, stderr } = await runTool(shim, [folder, "--runtime", verb, id], { timeoutMs: LIMIT_MS });
  return code === 0 ? null : `${signal ?? code}: ${escapeForLog(Buffer.from(stderr)).trim().slice(0, 500)}`;
}

function failed(id: string, what: string, why: string): DriverError {
  return new DriverError("state_failed", `machine ${id} could not be ${what} (${why})`, "see that it runs");
}
