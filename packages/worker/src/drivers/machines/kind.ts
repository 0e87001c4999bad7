import type { MachineDriverName, MachineSpec } from "../machine.ts";
import type { OciSpec } from "../oci/spec.ts";
import type { MachineFolders } from "./folders.ts";
import type { MachineGroups } from "./groups.ts";
import type { MachineRecord } from "./record.ts";

/** What the two kinds of machines do differently; everything else they share. */
export interface MachineKind {
  readonly name: MachineDriverName;
  readonly canFork: boolean;
  /** Whether root's programs keep the agent's capabilities: those of a kernel of their own. */
  readonly unprivileged: boolean;
  /** The runtime, and what falls away although it is there; or exactly what is missing. */
  detect(): Promise<MachineRuntime | { reason: string; hint: string }>;
  /** Host processes and threads for so many inside. */
  hostProcesses(processes: number): number;
  /** Makes the empty writable layer in `folders.data`. */
  makeLayer(folders: MachineFolders, spec: MachineSpec, firstUid: number): Promise<void>;
  plan(input: PlanInput): Plan;
  /** Takes the unpacked tar at `folders.data/disk.tar` as the layer of the next launch. */
  useDisk(folders: MachineFolders, record: MachineRecord): Promise<void>;
  /** Arguments of the shim's binary, after the folder, that write the layer as a tar to standard output. */
  tarArguments(folders: MachineFolders, id: string): string[];
}

export interface MachineRuntime {
  name: string;
  path: string;
  version: string;
  warnings: string[];
}

export interface PlanInput {
  spec: MachineSpec;
  argv: readonly string[];
  folders: MachineFolders;
  firstUid: number;
  groups: MachineGroups | null;
  runtime: MachineRuntime;
  /** The image's root on the host. */
  imageFolder: string;
  /** A folder with the mount points that an image lacks. */
  mountPoints: string;
  /** Folders of the host that are mounted too. */
  systemFolders: readonly string[];
  agentPath: string;
}

export interface Plan {
  config: OciSpec;
  /** `path` as it is found inside the machine's mount namespace. */
  runtime: { kind: "runsc" | "runc"; path: string; flags: string[] };
  userNamespace: boolean;
  mounts: ShimMount[];
}

/** See `agent/src/shim/settings.rs`. */
export type ShimMount =
  | { kind: "bind"; source: string; target: string; read_only: boolean; idmap: "no" | "try" | "must" }
  | { kind: "ext4"; source: string; target: string; folders: string[]; unpack: string | null }
  | { kind: "overlay"; lower: string; upper: string; work: string; target: string }
  | { kind: "layers"; folders: string[]; target: string }
  | { kind: "check"; root: string; folders: string[] };
