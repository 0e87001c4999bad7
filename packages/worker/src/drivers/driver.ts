import type { Duplex } from "node:stream";

/**
 * What bounds the memory of one environment: a memory cgroup of the host; the address space of each of its processes; or the agent,
 * which watches the groups of the sandbox's own kernel and ends what passes its limit.
 */
export type RowMemoryKind = "cgroup" | "rlimit" | "watch";

export type DriverName = "namespace" | "gvisor" | "unisolated";

/** Makes sandboxes of one kind on this host. One folder a driver; the pools engine talks to this interface only. */
export interface Driver {
  readonly name: DriverName;
  /** What this driver can do here; when it cannot, exactly what is missing and the command that installs it. Never throws. */
  probe(): Promise<DriverProbe>;
  /**
   * Starts one sandbox and resolves once its first process runs (not once it answers on the channel).
   * Rejects with a `DriverError` and leaves nothing behind; an abort of `signal` before it resolves does the same.
   */
  start(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>;
  /** Removes what its sandboxes share on the host, once all of them were killed. It may be used again afterwards. */
  close?(): Promise<void>;
}

export interface DriverProbe {
  name: DriverName;
  available: boolean;
  /** `rootless` for the namespace driver without root; `none` where nothing isolates. */
  mode: "root" | "rootless" | "none";
  rowMemory: RowMemoryKind;
  /** The OCI runtime in use, null without one. */
  runtime: { name: string; version: string; path: string } | null;
  /** Why it is not available, null when it is. */
  reason: string | null;
  /** What to do about it: a command where there is one. */
  hint: string | null;
  /** What falls away although it is available, one sentence each. */
  warnings: string[];
}

export interface SandboxMount {
  /** Absolute path on the host: a folder, a file, or a unix socket. */
  source: string;
  /** Absolute path inside. Its parents are made. */
  target: string;
  readOnly: boolean;
}

export interface RowMemory {
  /** The limits of groups `e0 …`, one for each process that holds environments. */
  limitsBytes: readonly number[];
  /** The limit of one more group, `states`, for the processes of all saved states; left out: no such group. */
  statesBytes?: number;
  /** Group (inside) that may write each `cgroup.procs`; the agent's `template_uid`. Default 1000. */
  templateGid?: number;
}

export interface SandboxSpec {
  /** Unique for this server; lower-case letters, digits and `-`, at most 48. */
  id: string;
  /** Besides what every sandbox has: the host's /usr and a made /etc, read-only; tmpfs on /run, /tmp, /dev/shm; an empty /workspace. */
  mounts: readonly SandboxMount[];
  /** Default: the agent, `/sandpool/agent` (under `unisolated` its path on the host). */
  argv?: readonly string[];
  /** Default `/`. Resolved inside; must be absolute. */
  cwd?: string;
  /** The whole environment of the first process; `PATH` is added if it is missing. Nothing of the server's is inherited. */
  environ: Readonly<Record<string, string>>;
  /** Of the whole sandbox; capped to what the host has. */
  memoryBytes: number;
  /** Processes and threads of the whole sandbox. */
  processes: number;
  /** Relative weight of the processor, 1024 by default. */
  cpuShares?: number;
  /** A memory cgroup for each environment, at `Sandbox.memoryDir`. Ignored where `rowMemory` is not `cgroup`. */
  rowMemory?: RowMemory;
  /** `none`: loopback only. `proxySocket`: loopback and this host unix socket at `/run/sandpool/proxy.sock`. */
  network: "none" | { proxySocket: string };
  /**
   * `pool`: what the agent needs to give environments their identity; `none`: no capability, no mount, no unshare; `build`: what making
   * a root file system needs (chroot, binds, owners), under the driver `namespace` only.
   */
  capabilities: "pool" | "none" | "build";
  rootImage: "host";
  /** A Python outside /usr: its real path and prefix folders are mounted read-only at the same paths. */
  pythonPath?: string;
}

export interface SandboxExit {
  /** 128 + n is never used here: a signal is named in `signal`. Both null: ended, and nobody could learn how. */
  code: number | null;
  signal: string | null;
}

export interface Sandbox {
  readonly id: string;
  /** The other end of the first process's descriptor 3, which that process may find non-blocking. */
  readonly channel: Duplex;
  readonly isolated: boolean;
  readonly rowMemory: RowMemoryKind;
  /** Path inside with `e0 …` and, where it was asked for, `states`; null without row groups. `watch`: the agent makes them there. */
  readonly memoryDir: string | null;
  /** Raises the limits of groups `e0 …`, as many as there are figures. Does nothing without row groups. */
  raiseRowMemory(limitsBytes: readonly number[]): Promise<void>;
  /** The last 64 KiB of the first process's standard output and error, escaped for logs and terminals. */
  stderr(): string;
  /** Resolves when the first process ended; never rejects. Everything else inside is dead by then too. */
  readonly exited: Promise<SandboxExit>;
  /** Kills at once and frees everything: no process, mount, cgroup, folder or uid slot is left. Idempotent. */
  kill(): Promise<void>;
}

/** A start or a probe that failed: what was received, what was expected, what to do. */
export class DriverError extends Error {
  readonly code:
    | "driver_unavailable"
    | "sandbox_spec_invalid"
    | "sandbox_start_failed"
    | "sandbox_cleanup_failed"
    | "sandbox_disk_failed"
    | "machine_unknown"
    | "fork_unsupported"
    | "state_refused"
    | "state_failed";
  readonly hint: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: DriverError["code"],
    message: string,
    hint: string,
    details: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "DriverError";
    this.code = code;
    this.hint = hint;
    this.details = details;
  }
}
