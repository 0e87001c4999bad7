import { readFile } from "node:fs/promises";
import { type Finished, runTool } from "../../host/run.ts";
import { findTool } from "../../host/tools.ts";
import { escapeForLog } from "../escape.ts";

export interface OciRuntime {
  name: "runc" | "crun";
  path: string;
  version: string;
}

/** runc before crun: crun refuses hybrid cgroup hosts. */
export async function findRuntime(): Promise<OciRuntime | null> {
  for (const name of ["runc", "crun"] as const) {
    const path = findTool(name);
    if (path === null) continue;
    const finished = await runTool(path, ["--version"]);
    const version = finished.stdout.match(/version:? v?(\S+)/)?.[1];
    if (finished.code === 0 && version !== undefined) return { name, path, version };
  }
  return null;
}

/** A release before runc 1.1.12 leaks a host folder's descriptor (CVE-2024-21626) unless a distribution patched it. */
export function isKnownVulnerable(runtime: OciRuntime): boolean {
  if (runtime.name !== "runc" || /ds|deb|ubuntu|el\d|fc\d/.test(runtime.version)) return false;
  const [major = 0, minor = 0, patch = 0] = runtime.version.split(/[.+~-]/).map(Number);
  return major < 1 || (major === 1 && (minor < 1 || (minor === 1 && patch < 12)));
}

/** Runs a container in the foreground, with descriptor 3 as its channel. */
export function runArguments(runtime: OciRuntime, root: string, folder: string, id: string): string[] {
  const log = ["--log", `${folder}/log`, "--log-format", "json"];
  const run = ["run", "--bundle", folder, "--preserve-fds", "1", "--pid-file", `${folder}/pid`, id];
  return [runtime.path, "--root", root, ...log, ...run];
}

/** Sends SIGKILL to the container's first process. The runtime compares its start time, so a recycled pid is never hit. */
export function killContainer(runtime: OciRuntime, root: string, id: string): Promise<Finished> {
  return runTool(runtime.path, ["--root", root, "kill", id, "KILL"], runtimeOptions());
}

/** Kills what is left of a container and forgets it. One that does not exist is fine. */
export function deleteContainer(runtime: OciRuntime, root: string, id: string): Promise<Finished> {
  return runTool(runtime.path, ["--root", root, "delete", "--force", id], { ...runtimeOptions(), timeoutMs: 15_000 });
}

/** The runtime's own words about a failed start, from its JSON log. */
export async function readRuntimeLog(file: string): Promise<string> {
  const text = await readFile(file).then(escapeForLog, () => "");
  const messages = text.split("\n").flatMap((line) => {
    try {
      const entry = JSON.parse(line) as { level?: string; msg?: string };
      return entry.level === "error" || entry.level === "fatal" ? [String(entry.msg)] : [];
    } catch {
      return [];
    }
  });
  return messages.join("; ").slice(0, 4096);
}

export function runtimeEnvironment(): Record<string, string> {
  // Rootless runtimes look for their folder here.
  const folder = process.env.XDG_RUNTIME_DIR;
  return folder === undefined ? {} : { XDG_RUNTIME_DIR: folder };
}

function runtimeOptions(): { environ: Record<string, string> } {
  return { environ: runtimeEnvironment() };
}
