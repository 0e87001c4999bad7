import { type CapabilityKind, capabilitySets, type OciCapabilities } from "./capabilities.ts";
import { MASKED_PATHS, READ_ONLY_PATHS } from "./masks.ts";
import { type SeccompProfile, seccompProfile } from "./seccomp.ts";

export interface OciMount {
  destination: string;
  type: string;
  source: string;
  options: string[];
}

export interface IdMapping {
  containerID: number;
  hostID: number;
  size: number;
}

/** The part of an OCI runtime spec 1.0.2 that we write. */
export interface OciSpec {
  ociVersion: "1.0.2";
  process: {
    terminal: false;
    user: { uid: 0; gid: 0 };
    args: string[];
    env: string[];
    cwd: string;
    capabilities: OciCapabilities;
    rlimits: { type: string; hard: number; soft: number }[];
    noNewPrivileges: true;
    oomScoreAdj?: number;
  };
  root: { path: string; readonly: boolean };
  hostname: string;
  mounts: OciMount[];
  linux: {
    namespaces: { type: string; path?: string }[];
    uidMappings?: IdMapping[];
    gidMappings?: IdMapping[];
    cgroupsPath?: string;
    resources?: { devices: { allow: false; access: "rwm" }[] };
    seccomp: SeccompProfile;
    maskedPaths: string[];
    readonlyPaths: string[];
    rootfsPropagation: "private";
  };
  annotations?: Record<string, string>;
}

export interface OciSpecInput {
  argv: readonly string[];
  cwd: string;
  environ: Readonly<Record<string, string>>;
  capabilities: CapabilityKind;
  mounts: OciMount[];
  /** Empty: no user namespace. Both are the same length. */
  uidMappings: IdMapping[];
  gidMappings: IdMapping[];
  /** Null: no cgroups, the rootless case. */
  cgroupsPath: string | null;
  cgroupNamespace: boolean;
  openFiles: number;
  /** Null where the server may not set it (rootless). */
  oomScoreAdj: number | null;
  /** Default: `rootfs` beside the spec, read-only. */
  root?: { path: string; readonly: boolean };
  /** Default `sandpool`. */
  hostname?: string;
  /** A network namespace to join; default: one of its own. */
  networkPath?: string;
  /** A user namespace to join, which has the mappings; default: a new one. */
  userPath?: string;
}

/** Composes the spec of one sandbox. Every field is written here; nothing comes from a runtime's template. */
export function ociSpec(input: OciSpecInput): OciSpec {
  const isMapped = input.uidMappings.length > 0;
  const types = ["pid", "mount", "ipc", "uts", ...(input.cgroupNamespace ? ["cgroup"] : [])];
  const user = { type: "user", ...(input.userPath === undefined ? {} : { path: input.userPath }) };
  const network = { type: "network", ...(input.networkPath === undefined ? {} : { path: input.networkPath }) };
  return {
    ociVersion: "1.0.2",
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [...input.argv],
      env: Object.entries({ PATH: "/usr/local/bin:/usr/bin:/bin", ...input.environ }).map(
        ([key, value]) => `${key}=${value}`,
      ),
      cwd: input.cwd,
      capabilities: capabilitySets(input.capabilities),
      rlimits: [
        { type: "RLIMIT_NOFILE", hard: input.openFiles, soft: input.openFiles },
        { type: "RLIMIT_CORE", hard: 0, soft: 0 },
      ],
      noNewPrivileges: true,
      ...(input.oomScoreAdj === null ? {} : { oomScoreAdj: input.oomScoreAdj }),
    },
    root: input.root ?? { path: "rootfs", readonly: true },
    hostname: input.hostname ?? "sandpool",
    mounts: input.mounts,
    linux: {
      namespaces: [...(isMapped ? [user] : []), ...types.map((type) => ({ type })), network],
      ...(isMapped ? { uidMappings: input.uidMappings, gidMappings: input.gidMappings } : {}),
      ...(input.cgroupsPath === null
        ? {}
        : { cgroupsPath: input.cgroupsPath, resources: { devices: [{ allow: false, access: "rwm" }] } }),
      seccomp: seccompProfile(
        input.capabilities === "pool" || input.capabilities === "build" ? input.capabilities : "none",
      ),
      maskedPaths: MASKED_PATHS,
      readonlyPaths: READ_ONLY_PATHS,
      rootfsPropagation: "private",
    },
  };
}
