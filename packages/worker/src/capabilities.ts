import { type Capabilities, VERSION } from "@sandpool/protocol";
import type { Driver } from "./drivers/driver.ts";
import { reportRunsc } from "./drivers/gvisor/find.ts";
import { type HostReport, probeHost } from "./host/probe.ts";
import { findUv } from "./layers/uv.ts";
import type { MachineHost } from "./machines/contract.ts";
import type { Networks } from "./network/contract.ts";
import type { WorkerLimits } from "./pools/limits.ts";

/** What this host can do, in the form of the API. */
export async function describeCapabilities(
  dataDir: string,
  agentPath: string | null,
  limits: WorkerLimits,
  drivers: ReadonlyMap<string, Driver>,
  machines: Pick<MachineHost, "probe">,
  networks: Pick<Networks, "probe">,
): Promise<Capabilities> {
  const [report, uv, runsc, machineDrivers, network] = await Promise.all([
    probeHost(dataDir, agentPath, drivers),
    findUv().catch(() => null),
    reportRunsc(),
    machines.probe(),
    networks.probe(),
  ]);
  return {
    version: VERSION,
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    kernel: report.kernel,
    cgroup: {
      version: report.cgroups?.version ?? null,
      controllers: report.cgroups?.controllers ?? [],
      writable: report.cgroups !== null,
    },
    user_namespaces: {
      available: report.userNamespaces.available,
      reason: report.userNamespaces.reason,
      details: { subordinate_ids: report.subordinateIds, root: report.root },
    },
    drivers: report.drivers.map((driver) => ({
      name: driver.name,
      available: driver.available && agentPath !== null,
      reason: driver.reason ?? (agentPath === null ? "the agent's binary was not found" : null),
      hint:
        driver.hint ??
        (agentPath === null ? "build it (cargo build --release in agent/) or name it in SANDPOOL_AGENT" : null),
      details: { mode: driver.mode, row_memory: driver.rowMemory, runtime: driver.runtime, warnings: driver.warnings },
    })),
    limits: { ...hostLimits(report), details: { pools: poolLimits(limits) } },
    tools: [
      ...report.tools.map((tool) => ({
        name: tool.name,
        path: tool.name === "uv" ? (uv?.path ?? tool.path) : tool.path,
        version: tool.name === "uv" ? (uv?.version ?? tool.version) : tool.version,
        needed_for: neededFor[tool.name],
        hint: tool.name === "uv" && uv !== null ? null : tool.install,
      })),
      { ...runsc, needed_for: "machines and pools of the gvisor driver" },
    ],
    machines: {
      drivers: machineDrivers,
      network: { available: network === null, reason: network?.reason ?? null, hint: network?.hint ?? null },
    },
  };
}

const neededFor: Record<HostReport["tools"][number]["name"], string> = {
  runc: "sandboxes of the namespace driver",
  crun: "sandboxes of the namespace driver, where there is no runc",
  newuidmap: "the namespace driver without root",
  newgidmap: "the namespace driver without root",
  uv: "installing the dependencies of environments",
};

function hostLimits({ limits }: HostReport): {
  cpus: number;
  memory_bytes: number;
  pids_max: number | null;
  nofile: number | null;
} {
  return { cpus: limits.cores, memory_bytes: limits.memoryBytes, pids_max: limits.pids, nofile: limits.openFiles };
}

function poolLimits(limits: WorkerLimits): Record<string, unknown> {
  return {
    n_max: limits.rowsMax,
    environment_processes_max: limits.processesMax,
    pools_max: limits.poolsMax,
    shards_max: limits.shardsMax,
    request_bytes: limits.requestBytes,
    reply_bytes: limits.replyBytes,
    message_bytes: limits.messageBytes,
    processes: limits.processes,
    workspace_inodes: limits.workspaceInodes,
    archive_bytes: limits.archives.packedBytes,
    archive_unpacked_bytes: limits.archives.unpackedBytes,
    archive_entries: limits.archives.entries,
  };
}
