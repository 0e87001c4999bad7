import { existsSync } from "node:fs";
import { runTool } from "../../host/run.ts";
import { escapeForLog } from "../escape.ts";

const END_LIMIT_MS = 30_000;

/** What the shim is told of a sandbox; its presence tells one of gVisor from one of an ordinary runtime. */
export function shimSettingsOf(folder: string): string {
  return `${folder}/shim.json`;
}

/**
 * Kills every process of a sandbox: members of its cgroups and whoever has an id of its range. One that never ran is fine.
 * @returns what could not be ended
 */
export async function endSandbox(shim: string, folder: string): Promise<string[]> {
  if (!existsSync(shimSettingsOf(folder))) return [];
  const { code, signal, stderr } = await runTool(shim, [folder, "--end"], { timeoutMs: END_LIMIT_MS });
  return code === 0
    ? []
    : [escapeForLog(Buffer.from(stderr)).trim().slice(0, 300) || `the shim ended ${signal ?? code}`];
}
