import { openFilesLimit } from "../../host/limits.ts";
import type { CapabilityKind } from "../oci/capabilities.ts";
import { kernelMounts } from "../oci/mounts.ts";
import { type OciMount, type OciSpec, ociSpec } from "../oci/spec.ts";
import type { MachineFolders } from "./folders.ts";
import type { PlanInput, ShimMount } from "./kind.ts";

/** Where the agent is inside. */
export const AGENT_TARGET = "/sandpool/agent";
/** In gVisor it keeps /tmp from being empty. */
export const TMP_MARK = "/tmp/.sandpool";
const OPEN_FILES = 65_536;
/** Below the server's 0: under pressure the host ends a machine first. */
const OUT_OF_MEMORY_SCORE = 300;

/** Where the host's folders and the agent are bound, so that the machine's own root can pass through to them. */
export function bindsOf({ folders, systemFolders, agentPath }: PlanInput): ShimMount[] {
  return [
    ...systemFolders.map((source): ShimMount => {
      return { kind: "bind", source, target: systemTarget(folders, source), read_only: true, idmap: "try" };
    }),
    { kind: "bind", source: agentPath, target: `${folders.folder}/agent`, read_only: true, idmap: "no" },
  ];
}

export function systemTarget({ folder }: MachineFolders, source: string): string {
  return `${folder}/system/${source.slice(1).replaceAll("/", "-")}`;
}

/** The image's root, mapped where it can be: an image's files belong to the machine's root, not to nobody. */
export function imageBind(input: PlanInput, target: string): ShimMount {
  const idmap = input.spec.image.kind === "rootfs" ? "must" : "try";
  return { kind: "bind", source: input.imageFolder, target, read_only: true, idmap };
}

export interface SpecOptions {
  capabilities: CapabilityKind;
  isMapped: boolean;
  cgroupsPath: string | null;
  extraMounts: readonly OciMount[];
}

/** The spec of a machine: its root is writable, `/tmp` is on its disk, and what is bound was bound by the shim before. */
export function machineOciSpec(input: PlanInput, options: SpecOptions): OciSpec {
  const { spec, folders } = input;
  const mapping = options.isMapped ? [{ containerID: 0, hostID: input.firstUid, size: 65_536 }] : [];
  return ociSpec({
    argv: input.argv,
    cwd: "/",
    environ: {},
    capabilities: options.capabilities,
    mounts: [
      ...kernelMounts()
        .filter(({ destination }) => destination !== "/tmp")
        .map((mount) => (mount.destination === "/dev/shm" ? withSize(mount, spec.memoryBytes / 2) : mount)),
      ...input.systemFolders.map((source) => bound(systemTarget(folders, source), source)),
      bound(`${folders.folder}/agent`, AGENT_TARGET),
      ...options.extraMounts,
    ],
    uidMappings: mapping,
    gidMappings: mapping,
    cgroupsPath: options.cgroupsPath,
    cgroupNamespace: options.cgroupsPath !== null,
    openFiles: Math.min(OPEN_FILES, openFilesLimit()),
    oomScoreAdj: OUT_OF_MEMORY_SCORE,
    root: { path: `${folders.folder}/root`, readonly: false },
    hostname: spec.hostname,
    ...(spec.network.kind === "own" ? joined(folders, options.isMapped) : {}),
  });
}

/** The network belongs to that user namespace; a container in another one could not even mount its sysfs. */
function joined({ folder }: MachineFolders, isMapped: boolean): { networkPath: string; userPath?: string } {
  return { networkPath: `${folder}/netns`, ...(isMapped ? { userPath: `${folder}/userns` } : {}) };
}

/** Read-only; the flags are those the shim's mount has, which a user namespace may not leave out. */
export function bound(source: string, destination: string): OciMount {
  return { destination, type: "bind", source, options: ["rbind", "ro", "nosuid", "nodev", "private"] };
}

function withSize(mount: OciMount, bytes: number): OciMount {
  const options = mount.options.filter((option) => !option.startsWith("size="));
  return { ...mount, options: [...options, `size=${Math.floor(bytes)}`] };
}
