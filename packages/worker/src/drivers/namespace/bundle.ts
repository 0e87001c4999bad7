import { writeFile } from "node:fs/promises";
import { makeShardGroups, type ShardGroups } from "../../host/cgroups/shard.ts";
import type { HostFolders } from "../../host/folders.ts";
import { openFilesLimit } from "../../host/limits.ts";
import type { SandboxMount, SandboxSpec } from "../driver.ts";
import { bindMount, kernelMounts, systemLinks, systemMounts } from "../oci/mounts.ts";
import { checkMounts, makeRootfs } from "../oci/rootfs.ts";
import { type OciMount, ociSpec } from "../oci/spec.ts";
import { pythonMounts } from "../python.ts";
import type { SandboxIds } from "./identity.ts";
import type { NamespaceMode } from "./mode.ts";

/** Paths inside that the agent and the pools engine know. */
export const AGENT_TARGET = "/sandpool/agent";
export const MEMORY_TARGET = "/run/sandpool/memory";
export const PROXY_TARGET = "/run/sandpool/proxy.sock";

const OPEN_FILES = 65_536;
/** Below the server's 0, so that under pressure the host ends a sandbox first; what runs inside cannot go below it. */
const OUT_OF_MEMORY_SCORE = 300;

export interface BundleInput {
  spec: SandboxSpec;
  agentPath: string | null;
  mode: NamespaceMode;
  folders: HostFolders;
  /** `<sandboxes>/<id>`, which exists. */
  folder: string;
  ids: SandboxIds;
}

/** Writes everything the runtime needs for one sandbox: the folder, the groups, the root and the spec. */
export async function makeBundle(input: BundleInput): Promise<ShardGroups | null> {
  const requested = requestedMounts(input.spec, input.agentPath);
  await checkMounts(requested);
  const groups = await makeGroups(input);
  try {
    const mounts = allMounts(input.folders.etc, requested, groups);
    await makeRootfs(`${input.folder}/rootfs`, mounts, systemLinks());
    await writeFile(`${input.folder}/config.json`, JSON.stringify(composeSpec(input, mounts, groups)), { mode: 0o600 });
  } catch (error) {
    // Whoever frees the groups must not meet one that is still being made.
    await groups?.rowsMade.catch(() => undefined);
    throw error;
  }
  return groups;
}

function requestedMounts(spec: SandboxSpec, agentPath: string | null): SandboxMount[] {
  const mounts = [...(spec.pythonPath === undefined ? [] : pythonMounts(spec.pythonPath)), ...spec.mounts];
  if (agentPath !== null) mounts.push({ source: agentPath, target: AGENT_TARGET, readOnly: true });
  if (spec.network !== "none") mounts.push({ source: spec.network.proxySocket, target: PROXY_TARGET, readOnly: true });
  return mounts;
}

function allMounts(etc: string, requested: readonly SandboxMount[], groups: ShardGroups | null): OciMount[] {
  const rows = groups?.rowsFolder ?? null;
  return [
    ...kernelMounts(),
    ...systemMounts(etc),
    ...requested.map((mount) => bindMount(mount)),
    ...(rows === null ? [] : [bindMount({ source: rows, target: MEMORY_TARGET, readOnly: false })]),
  ];
}

async function makeGroups({ spec, mode, folders, ids }: BundleInput): Promise<ShardGroups | null> {
  if (mode.cgroups === null) return null;
  const { rowMemory } = spec;
  return await makeShardGroups(
    mode.cgroups,
    folders.key,
    spec.id,
    { memoryBytes: spec.memoryBytes, processes: spec.processes, cpuShares: spec.cpuShares ?? 1024 },
    rowMemory === undefined
      ? null
      : {
          limitsBytes: rowMemory.limitsBytes,
          statesBytes: rowMemory.statesBytes ?? null,
          ownerUid: ids.rootUid,
          enterGid: ids.hostGid(rowMemory.templateGid ?? 1000),
        },
  );
}

function composeSpec(input: BundleInput, mounts: OciMount[], groups: ShardGroups | null): ReturnType<typeof ociSpec> {
  const { spec, mode, ids } = input;
  const isRoot = mode.mode === "root";
  return ociSpec({
    argv: spec.argv ?? [AGENT_TARGET],
    cwd: spec.cwd ?? "/",
    environ: spec.environ,
    capabilities: spec.capabilities,
    mounts,
    uidMappings: ids.uidMappings,
    gidMappings: ids.gidMappings,
    cgroupsPath: groups?.processPath ?? null,
    cgroupNamespace: isRoot && !(mode.cgroups?.version === 2 && groups?.rowsFolder !== null),
    openFiles: Math.min(OPEN_FILES, openFilesLimit()),
    oomScoreAdj: isRoot ? OUT_OF_MEMORY_SCORE : null,
  });
}
