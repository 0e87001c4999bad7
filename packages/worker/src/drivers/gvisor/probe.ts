import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { detectCgroups } from "../../host/cgroups/detect.ts";
import type { DriverProbe, Sandbox, SandboxSpec } from "../driver.ts";
import { findShim } from "../machines/shim.ts";
import { detectRunsc } from "./find.ts";

const ANSWER_LIMIT_MS = 30_000;

/** What the driver runs on this host. */
export interface GvisorTools {
  runscPath: string;
  version: string;
  shim: string;
}

/** Looks for the programs. What is missing is named, with what brings it. */
export async function detectGvisor(agentPath: string | null): Promise<GvisorTools | { reason: string; hint: string }> {
  const runtime = await detectRunsc();
  if ("reason" in runtime) return runtime;
  const shim = findShim(agentPath);
  if (shim !== null) return { runscPath: runtime.path, version: runtime.version, shim };
  return {
    reason: "the shim's binary was not found beside the agent",
    hint: "build it (cargo build --release in agent/) or name it in SANDPOOL_SHIM",
  };
}

/** Asks the host by doing: a sandbox whose program writes to its channel. */
export async function probeGvisor(
  agentPath: string | null,
  start: (spec: SandboxSpec) => Promise<Sandbox>,
): Promise<DriverProbe> {
  const none: DriverProbe = {
    ...{ name: "gvisor", available: false, mode: "none", rowMemory: "watch", runtime: null, warnings: [] },
    ...{ reason: null, hint: null },
  };
  const tools = await detectGvisor(agentPath);
  if ("reason" in tools) return { ...none, ...tools };
  const runtime = { name: "runsc", version: tools.version, path: tools.runscPath };
  const problem = await tryOnce(start);
  if (problem === null) return { ...none, available: true, mode: "root", runtime, warnings: warnings() };
  return {
    ...none,
    runtime,
    reason: `a first sandbox could not be started: ${problem}`,
    hint: "the message is the runtime's or the kernel's own; mend it and try again",
  };
}

async function tryOnce(start: (spec: SandboxSpec) => Promise<Sandbox>): Promise<string | null> {
  try {
    const sandbox = await start({
      id: `probe-${randomBytes(8).toString("hex")}`,
      mounts: [],
      argv: ["/bin/sh", "-c", "echo works >&3; exec sleep 600"],
      environ: {},
      memoryBytes: 2 ** 28,
      processes: 16,
      network: "none",
      capabilities: "none",
      rootImage: "host",
    });
    try {
      const limit = { signal: AbortSignal.timeout(ANSWER_LIMIT_MS) };
      const answer = once(sandbox.channel, "data", limit).then(
        ([chunk]) => String(chunk),
        (error: Error) => error.message,
      );
      const text = await Promise.race([
        answer,
        sandbox.exited.then(({ code, signal }) => `ended with ${signal ?? code}`),
      ]);
      return text === "works\n" ? null : `its program did not answer (${text}): ${sandbox.stderr().slice(-1000)}`;
    } finally {
      await sandbox.kill();
    }
  } catch (error) {
    return (error as Error).message;
  }
}

function warnings(): string[] {
  const inherent =
    "gvisor: the memory of an environment is watched by the agent, so that it may pass its limit for some tenths of a second; environments of one sandbox see each other's process numbers and command lines";
  const unbounded = "gvisor: no writable memory cgroup on this host; nothing bounds a sandbox as a whole";
  return detectCgroups() === null ? [inherent, unbounded] : [inherent];
}
