import { accessSync, constants } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { runTool } from "../../host/run.ts";
import { findTool } from "../../host/tools.ts";
import type { MachineRuntime } from "../machines/kind.ts";

/** The version that was tried; later ones may ask for further files beside the program. */
export const PINNED_RUNSC = "v0.0.0-20260905035102-160fafc42237";

/** How to get it, where the set-up could not build it. */
export const RUNSC_HINT = `with Go 1.26: GOBIN="$HOME/.cache/sandpool/bin" CGO_ENABLED=0 go install -ldflags "-s -w" gvisor.dev/gvisor/runsc@${PINNED_RUNSC}`;

/** The program: SANDPOOL_RUNSC, else the pinned one in the user's cache, else on the path; null without any. */
export function findRunsc(): string | null {
  const named = process.env.SANDPOOL_RUNSC;
  if (named !== undefined && named !== "") return named;
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  const cached = join(cache, "sandpool/bin/runsc");
  try {
    accessSync(cached, constants.X_OK);
    return cached;
  } catch {
    return findTool("runsc");
  }
}

export async function detectRunsc(): Promise<MachineRuntime | { reason: string; hint: string }> {
  if (process.platform !== "linux") {
    return { reason: `gVisor needs Linux, this is ${process.platform}`, hint: "run the server on a Linux host" };
  }
  if (process.geteuid?.() !== 0) {
    return { reason: "machines need root for host uids of their own", hint: "start the server as root" };
  }
  const { path, version, hint } = await reportRunsc();
  if (path === null) return { reason: "runsc is not installed", hint: RUNSC_HINT };
  if (version === null) return { reason: `${path} does not run`, hint: hint ?? RUNSC_HINT };
  return { name: "runsc", path, version, warnings: [] };
}

/** For `sandpool doctor`: where it is, or how to get it. */
export async function reportRunsc(): Promise<{
  name: "runsc";
  path: string | null;
  version: string | null;
  hint: string | null;
}> {
  const path = findRunsc();
  if (path === null) return { name: "runsc", path, version: null, hint: RUNSC_HINT };
  const { code, stdout } = await runTool(path, ["--version"]);
  if (code !== 0) return { name: "runsc", path, version: null, hint: RUNSC_HINT };
  const said = stdout.match(/runsc version (\S+)/)?.[1] ?? "unknown";
  // A build by `go install` knows no version of its own.
  return { name: "runsc", path, version: said === "VERSION_MISSING" ? PINNED_RUNSC : said, hint: null };
}
