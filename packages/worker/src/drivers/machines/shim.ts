import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, closeSync, constants, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { isAlive, parseIdentity } from "../../host/identity.ts";
import { TOOL_PATH } from "../../host/run.ts";
import { DriverError } from "../driver.ts";
import { escapeForLog } from "../escape.ts";
import type { MachineFolders } from "./folders.ts";
import { readJson } from "./record.ts";

/** The shim's binary: SANDPOOL_SHIM, else the one beside the agent. */
export function findShim(agentPath: string | null): string | null {
  const named = process.env.SANDPOOL_SHIM;
  const path = named !== undefined && named !== "" ? named : agentPath && `${dirname(agentPath)}/sandpool-shim`;
  if (path === null) return null;
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return null;
  }
}

/** Starts a shim that outlives this process. It shares no descriptor, session or terminal with it. */
export function startShim(shim: string, { folder }: MachineFolders, adopt: boolean): ChildProcess {
  const errors = openSync(`${folder}/shim.log`, "w", 0o600);
  try {
    const child = spawn(shim, adopt ? [folder, "--adopt"] : [folder], {
      stdio: ["ignore", "ignore", errors],
      detached: true,
      env: { PATH: TOOL_PATH },
      cwd: "/",
    });
    child.on("error", () => undefined);
    child.unref();
    return child;
  } finally {
    closeSync(errors);
  }
}

/** Pid of the shim that runs for this machine, null when none does. */
export async function shimPid({ folder }: MachineFolders): Promise<number | null> {
  const found = await readJson<{ pid: number; start_time: string; boot: string }>(`${folder}/shim.pid`);
  const identity = found && parseIdentity({ pid: found.pid, startTime: found.start_time, bootId: found.boot });
  return identity !== null && isAlive(identity) ? identity.pid : null;
}

/** Why a shim ended before it could even be asked. */
export function shimFailure({ folder }: MachineFolders, child: ChildProcess | null): DriverError {
  let said = "";
  try {
    said = escapeForLog(readFileSync(`${folder}/shim.log`))
      .trim()
      .slice(-1000);
  } catch {
    // The folder is gone.
  }
  return new DriverError(
    "sandbox_start_failed",
    `the machine's shim ended (${child?.signalCode ?? child?.exitCode ?? "unknown"}): ${said || "it said nothing"}`,
    "run `sandpool doctor`; if it finds nothing, the message above is the shim's own",
  );
}
