import type { Driver, DriverProbe } from "../drivers/driver.ts";
import { createDriver } from "../drivers/drivers.ts";
import { type ControllerName, detectCgroups } from "./cgroups/detect.ts";
import { type HostLimits, readLimits } from "./limits.ts";
import { runTool } from "./run.ts";
import { reportTool, type ToolReport } from "./tools.ts";
import { type IdRange, readSubordinateIds } from "./uids/subordinate.ts";

/** What `sandpool doctor` prints. */
export interface HostReport {
  root: boolean;
  kernel: string;
  drivers: DriverProbe[];
  /** Null: no hierarchy with a writable memory controller. */
  cgroups: { version: 1 | 2; controllers: ControllerName[] } | null;
  /** Found by making one. */
  userNamespaces: { available: boolean; reason: string | null };
  subordinateIds: { user: string; uids: IdRange | null; gids: IdRange | null };
  limits: HostLimits;
  tools: ToolReport[];
}

const DRIVERS = ["namespace", "gvisor", "unisolated"] as const;

/** @param made drivers that a worker has already; what they found is not looked for again */
export async function probeHost(
  dataDir: string,
  agentPath: string | null,
  made: ReadonlyMap<string, Driver> = new Map(),
): Promise<HostReport> {
  const options = { dataDir, agentPath };
  const cgroups = detectCgroups();
  const [drivers, userNamespaces, tools] = await Promise.all([
    Promise.all(DRIVERS.map((name) => (made.get(name) ?? createDriver(name, options)).probe())),
    tryUserNamespace(),
    Promise.all((["runc", "crun", "newuidmap", "newgidmap", "uv"] as const).map(reportTool)),
  ]);
  return {
    root: process.geteuid?.() === 0,
    kernel: (await runTool("uname", ["-sr"])).stdout.trim(),
    drivers,
    cgroups: cgroups && { version: cgroups.version, controllers: Object.keys(cgroups.controllers) as ControllerName[] },
    userNamespaces,
    subordinateIds: readSubordinateIds(),
    limits: readLimits(),
    tools,
  };
}

async function tryUserNamespace(): Promise<HostReport["userNamespaces"]> {
  const finished = await runTool("unshare", ["--user", "--map-root-user", "true"]);
  return finished.code === 0 ? { available: true, reason: null } : { available: false, reason: finished.stderr.trim() };
}
