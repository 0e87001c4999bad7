import { randomInt } from "node:crypto";
import type { MachineExit, MachineProbe, MachineSpec } from "../machine.ts";
import type { MachineKind } from "./kind.ts";
import { findShim } from "./shim.ts";

/** Asks the host by doing: a machine of the image `host` that writes to its disk and ends. */
export async function probeByStarting(
  kind: MachineKind,
  agentPath: string | null,
  start: (spec: MachineSpec, argv: readonly string[]) => Promise<MachineExit>,
): Promise<MachineProbe> {
  const { name } = kind;
  const can = { fork: kind.canFork, checkpoint: kind.canFork, hibernate: kind.canFork };
  const none = {
    name,
    available: false,
    runtime: null,
    warnings: [],
    fork: false,
    checkpoint: false,
    hibernate: false,
  };
  if (agentPath === null || findShim(agentPath) === null) {
    const hint = "build them (cargo build --release in agent/) or name them in SANDPOOL_AGENT and SANDPOOL_SHIM";
    return { ...none, reason: "the agent's or the shim's binary was not found", hint };
  }
  const runtime = await kind.detect();
  if ("reason" in runtime) return { ...none, ...runtime };
  const { warnings, ...known } = runtime;
  // What passes by itself, on a host that is being restarted or is busy, is no property of the host.
  const problem = (await tryOnce(start)) && (await tryOnce(start));
  if (problem === null) return { name, available: true, reason: null, hint: null, runtime: known, warnings, ...can };
  const reason = `a first container could not be started: ${problem}`;
  return {
    ...none,
    runtime: known,
    warnings,
    reason,
    hint: "the message is the runtime's or the kernel's own; mend it and start the server again",
  };
}

async function tryOnce(
  start: (spec: MachineSpec, argv: readonly string[]) => Promise<MachineExit>,
): Promise<string | null> {
  const spec: MachineSpec = {
    id: `m${Array.from({ length: 20 }, () => randomInt(36).toString(36)).join("")}`,
    hostname: "probe",
    image: { kind: "host" },
    vcpu: 1,
    memoryBytes: 2 ** 28,
    diskBytes: 2 ** 25,
    processes: 64,
    environ: {},
    network: { kind: "none" },
  };
  try {
    const exit = await start(spec, ["/bin/sh", "-c", "echo works >/etc/probe && test works = $(cat /etc/probe)"]);
    if (!exit.started) return exit.stderr?.trim() || "it did not start, and nothing said why";
    return exit.code === 0 ? null : `its program ended with ${exit.signal ?? exit.code}`;
  } catch (error) {
    return (error as Error).message;
  }
}
