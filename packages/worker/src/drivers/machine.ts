import type { Socket } from "node:net";
import type { StateManifest } from "./machines/states/manifest.ts";

export type { StateManifest } from "./machines/states/manifest.ts";

export type MachineDriverName = "namespace" | "gvisor";

/** Makes machines of one kind on this host. A machine is a folder and a shim that outlives the server; contract: docs/internals/machines.md. */
export interface MachineDriver {
  readonly name: MachineDriverName;
  /** What this driver can do here, found by starting a container once; the answer is kept. Never throws. */
  probeMachines(): Promise<MachineProbe>;
  /**
   * Makes everything a machine needs before it runs: folder, uid range, cgroups, bundle, writable layer.
   * Rejects with a `DriverError` and leaves nothing behind; an abort of `signal` does the same.
   */
  prepare(spec: MachineSpec, signal: AbortSignal): Promise<void>;
  /** Gives a prepared machine the disk of an earlier one, from a file that `saveDisk` wrote. */
  loadDisk(id: string, file: string): Promise<void>;
  /**
   * Starts a prepared machine; resolves once its agent answers. A failure or an abort removes the machine whole.
   * `setUpNetwork` is called for a machine with a network before anything of it runs.
   */
  launch(
    id: string,
    signal?: AbortSignal,
    setUpNetwork?: (network: MachineNetwork) => Promise<void>,
  ): Promise<ShimConnection>;
  /** The network namespace of a launched machine that has one; null without. */
  findNetwork(id: string): Promise<MachineNetwork | null>;
  /**
   * Takes over a machine that was launched by an earlier server, or whose shim was killed.
   * @throws `machine_unknown` when this host has no such machine
   */
  adopt(id: string): Promise<ShimConnection | MachineExit>;
  /** Ids of all machines of this server's data folder that hold anything on the host. */
  list(): Promise<string[]>;
  /** Writes the running machine's writable layer to `file`, whole or not at all: a tar, compressed with zstd. */
  saveDisk(id: string, file: string): Promise<SavedDisk>;
  /** The last words of the agent and the runtime, raw: at most 256 KiB. */
  readLogs(id: string): Promise<Buffer>;
  /**
   * Stops every program of a machine whose agent is quiet (`quiesce`); its memory stays. Idempotent. A server that adopts it wakes it.
   * @throws `fork_unsupported` where the driver cannot keep states
   */
  pause(id: string): Promise<void>;
  /** Lets the programs of a paused machine go on; its agent waits for `thaw`. One that runs is 0 ms away. */
  resume(id: string): Promise<{ awayMs: number }>;
  /**
   * Writes the state of a running or paused machine to `folder`, which appears whole or not at all; the machine goes on, or stays paused.
   * @throws `fork_unsupported`, or `state_failed`: the machine is as it was
   */
  checkpoint(id: string, folder: string, session: Quiet, options: CheckpointOptions): Promise<Checkpoint>;
  /** As `prepare`, for a machine that will be restored: its container is created, and waits. May run while the state is being written. */
  prepareRestore(
    spec: MachineSpec,
    signal: AbortSignal,
    setUpNetwork?: (network: MachineNetwork) => Promise<void>,
  ): Promise<void>;
  /**
   * Restores a state into a machine that `prepareRestore` made; resolves once its agent has answered `thaw`. A failure or an abort removes
   * the machine whole, and never the state.
   * @throws `state_refused` before anything starts: the state is damaged or does not fit this host or this machine
   */
  restore(id: string, folder: string, identity: RestoredIdentity, signal: AbortSignal): Promise<RestoredConnection>;
  /** From any state; nothing is left, but what `saveDisk` wrote elsewhere. Idempotent. */
  remove(id: string): Promise<void>;
}

export interface MachineProbe {
  name: MachineDriverName;
  available: boolean;
  reason: string | null;
  hint: string | null;
  runtime: { name: string; version: string; path: string } | null;
  fork: boolean;
  checkpoint: boolean;
  hibernate: boolean;
  warnings: string[];
}

export type MachineImage = { kind: "host" } | { kind: "rootfs"; folder: string };

export interface MachineSpec {
  /** `m` and 20 characters of `0-9a-z`; never used again. */
  id: string;
  hostname: string;
  image: MachineImage;
  vcpu: number;
  /** What its programs may use; the host's limit is 15 % above it. */
  memoryBytes: number;
  /** Size of the writable layer. */
  diskBytes: number;
  /** Processes and threads. */
  processes: number;
  /** Variables of programs that are started without any. */
  environ: Readonly<Record<string, string>>;
  /** `none`: loopback only. `own`: a network namespace of its own, owned by its user namespace, which `setUpNetwork` fills. */
  network: { kind: "none" } | { kind: "own" };
}

/** A machine's network namespace: loopback is up, everything else is another part's to make. */
export interface MachineNetwork {
  /** Of a process in it, as `ip link set … netns <pid>` takes it; it lives as long as the machine. */
  pid: number;
  /** For `nsenter --net=`. */
  path: string;
}

/** A running machine. */
export interface ShimConnection {
  readonly id: string;
  /**
   * Frames of the agent and of the shim, both ways, standing at a frame's start and paused until it is read.
   * The shim's last event is `exit`; then it ends the connection. Another connection to the same shim ends this one.
   */
  readonly socket: Socket;
  /** What the shim said when it was connected. */
  readonly shim: ShimStatus;
  /** The agent's reply to `machine`. */
  readonly agent: Readonly<Record<string, unknown>>;
}

export interface ShimStatus {
  /** `waiting`: for its network to be set up; `created`: for a state to be restored. */
  state: "waiting" | "starting" | "created" | "restoring" | "running" | "exited";
  /** Host pid of the sandbox. */
  pid: number | null;
  /** Milliseconds since 1970. */
  started_at: number | null;
  exit: MachineExit | null;
  version: string;
}

/** Who talks to the agent of a machine whose state is written. */
export interface Quiet {
  /** Asks for silence; nothing is sent to the agent from its answer to `thaw`. */
  quiesce(): Promise<void>;
  /** With the generation it has. */
  thaw(awayMs: number): Promise<void>;
}

export interface CheckpointOptions {
  /** The state that this machine came from. */
  parent: string | null;
  /** Only for copies that this process makes at once: neither synced nor hashed, and no later process takes it. */
  transient?: boolean;
}

export interface Checkpoint {
  bytes: number;
  /** From the agent's silence to its answer after it; 0 where the machine was paused before. */
  pausedMs: number;
  manifest: StateManifest;
}

export interface RestoredIdentity {
  /** Higher than that of the state. */
  generation: number;
  /** 32 hexadecimal digits, for `/etc/machine-id`. */
  machineId: string;
  /** Another machine than the one whose state it is. */
  copy: boolean;
}

export interface RestoredConnection extends ShimConnection {
  /** The agent's answer to `thaw`: how the programs of `/etc/sandpool/fork.d` ended, and what could not be set. */
  readonly restored: { hooks: readonly { name: string; exit_code: number | null }[]; warnings: readonly string[] };
}

/** How a sandbox ended. Code and signal both null: nobody could learn how. */
export interface MachineExit {
  code: number | null;
  /** Without `SIG`: `KILL`. */
  signal: string | null;
  oom_killed: boolean;
  /** False: it never ran, and `stderr` says why. */
  started: boolean;
  stderr?: string;
  /** Milliseconds since 1970. */
  at: number;
}

export interface SavedDisk {
  /** Of the compressed file. */
  bytes: number;
  sha256: string;
  /** Milliseconds since 1970. */
  savedAt: number;
}
