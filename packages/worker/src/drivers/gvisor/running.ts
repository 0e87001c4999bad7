import { readFile } from "node:fs/promises";
import { type Launched, readPid } from "../namespace/launch.ts";

/**
 * The sandbox's pid once its first process runs; 0 until then. runsc writes the pid file when the sandbox is made, and only its own
 * record says when the program was started. The record goes with a program that ended at once.
 */
export async function readRunning(folder: string, id: string, launched: Launched): Promise<number> {
  const { process, output } = launched;
  const hasEnded = process.exitCode !== null || process.signalCode !== null;
  if (hasEnded) return process.exitCode === START_FAILED && REFUSED.test(output.text()) ? 0 : await readPid(folder);
  return (await readStatus(`${folder}/${id}_sandbox:${id}.state`)) === "running" ? await readPid(folder) : 0;
}

const START_FAILED = 128;
const REFUSED = /^(running|starting|creating) container: /m;

async function readStatus(file: string): Promise<unknown> {
  try {
    return (JSON.parse(await readFile(file, "utf8")) as { status?: unknown }).status;
  } catch {
    // Not there yet, or half written.
    return null;
  }
}
