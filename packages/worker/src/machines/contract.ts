import type { Duplex, Readable } from "node:stream";
import type { MachineDriverName, MachineExit, MachineProbe, SavedDisk } from "../drivers/machine.ts";

/** Machines of one host: makes them, takes them over after a restart, removes them. Which ones there should be, the server knows. */
export interface MachineHost {
  /** What each driver can do here. */
  probe(): Promise<MachineProbe[]>;
  /**
   * Makes and starts a machine; resolves once its agent answers. A failure or an abort of `signal` leaves nothing behind.
   * Starting a stopped one is the same call, with `disk`; what an ended machine of that id still held is removed first.
   * About as many as there are processors are made at the same time; the others wait their turn.
   */
  create(plan: MachinePlan, options: MachineCreateOptions): Promise<LiveMachine>;
  /** Takes over what runs on this host of a machine; how it ended where it has; null where the host has nothing of it. */
  adopt(plan: MachinePlan): Promise<LiveMachine | MachineExit | null>;
  /**
   * Ids of all machines of this data folder that hold anything on the host, but for what this worker itself has under way
   * (probes, sandboxes of image builds): the server removes every one that it does not know.
   */
  list(): Promise<string[]>;
  /** From any state, also while it is being made; nothing is left but saved disks. Idempotent. */
  remove(id: string): Promise<void>;
  /** The last words of a machine's agent and runtime, raw. */
  readLogs(id: string): Promise<Buffer>;
  /** Lets go of all connections; machines run on. */
  close(): Promise<void>;
}

/** Everything a machine is made from. */
export interface MachinePlan {
  /** `m` and 20 characters of `0-9a-z`. */
  id: string;
  /** Its host name. */
  name: string;
  driver: MachineDriverName;
  /** As `ImageStore.resolve` gave it. */
  imageId: string;
  vcpu: number;
  memoryBytes: number;
  diskBytes: number;
  /** Variables of its programs, those of the image included. */
  environ: Readonly<Record<string, string>>;
  network: MachineNetworkPolicy;
}

export type MachineNetworkPolicy =
  | { kind: "open" }
  | { kind: "isolated" }
  | { kind: "egress"; hosts: readonly string[] };

export interface MachineCreateOptions {
  signal: AbortSignal;
  /** A file of `LiveMachine.saveDisk`: the disk it starts with. */
  disk?: string | null;
  onProgress?: (progress: { phase: "prepare" | "disk" | "network" | "start"; done: number; total: number }) => void;
}

/**
 * A running machine. All paths are inside and absolute; errors are `SandpoolError`s with the codes of docs/internals/machines.md.
 * A source is never destroyed here: one that was refused, or of which no more is wanted, is not read further, and is its owner's.
 */
export interface LiveMachine {
  readonly id: string;
  /** The host side's address of its network; null without one. */
  readonly outerAddress: string | null;
  /** What the agent told of itself: `users`, `shell`. */
  readonly agent: Readonly<Record<string, unknown>>;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** Resolves when the machine has ended, for whatever reason. A shim that was killed is replaced meanwhile, without a word. */
  readonly ended: Promise<MachineExit>;

  startExec(start: ExecStart): Promise<StartedExec>;
  attachExec(id: string, from: "start" | "now"): Promise<ExecAttachment>;
  /** Resolves when it has ended; survives a new connection to the shim. `collect`: with what was kept of its output. */
  waitExec(id: string, options: { collect: boolean; signal?: AbortSignal }): Promise<ExecOutcome>;
  /** Feeds standard input in order, and closes it at the source's end. Resolves with what was taken. */
  writeExecInput(id: string, source: Readable): Promise<{ bytes: number }>;
  /** `signal` without `SIG`; `tree`: everything below it too. */
  signalExec(id: string, signal: string, tree: boolean): Promise<{ signalled: number }>;
  resizeExec(id: string, rows: number, columns: number): Promise<void>;
  listExecs(): Promise<ExecState[]>;
  forgetExec(id: string): Promise<void>;

  /** Resolves once the content is safely there under its name. A source that fails leaves nothing. */
  writeFile(path: string, source: Readable, options: WriteFileOptions): Promise<{ bytes: number; sha256: string }>;
  readFile(path: string, options: ReadFileOptions): Promise<{ stat: FileEntry; content: Readable }>;
  statFile(path: string, options: { follow?: boolean; user?: string | null }): Promise<FileEntry>;
  listFiles(path: string, options: ListFilesOptions): Promise<{ entries: FileEntry[]; more: boolean }>;
  makeFolder(path: string, options: { parents?: boolean; mode?: number | null; user?: string | null }): Promise<void>;
  moveFile(from: string, to: string, options: { replace?: boolean; user?: string | null }): Promise<void>;
  removeFile(path: string, options: { recursive?: boolean; user?: string | null }): Promise<void>;
  /** JSON lines of changes; destroying the stream ends the watch. */
  watchFiles(path: string, options: { recursive?: boolean; user?: string | null }): Promise<Readable>;
  /** A tar in. */
  writeTree(
    path: string,
    source: Readable,
    options: { user?: string | null },
  ): Promise<{ entries: number; bytes: number }>;
  /** A tar out. */
  readTree(path: string, options: { user?: string | null }): Promise<Readable>;

  /** A connection to a port on its loopback. @throws `port_refused` */
  dialPort(port: number): Promise<Duplex>;
  listPorts(): Promise<{ port: number; pid: number | null }[]>;

  /** Writes the disk to `file`, whole or not at all. */
  saveDisk(file: string): Promise<SavedDisk>;
  /** What the machine uses now; null where it cannot be known. */
  memoryBytes(): Promise<number | null>;
  /** TERM to all programs, KILL after `ms`; resolves when the sandbox has ended. The disk is to be saved before. */
  stop(ms: number): Promise<MachineExit>;
}

export interface ExecStart {
  /** `x` and 16 characters of `0-9a-z`; asked again with a known id it starts nothing. */
  id: string;
  argv: readonly string[];
  /** Null: the user's home. */
  cwd: string | null;
  /** Whole; the machine's own are merged in by the caller. Null: the machine's own. What its network needs comes below either. */
  environ: Readonly<Record<string, string>> | null;
  user: string | null;
  tty: { rows: number; columns: number } | null;
  /** Whether `writeExecInput` will come. */
  stdin: boolean;
  timeoutMs: number | null;
  /** Kept per stream, head and tail, at most 31 MiB; null: the agent's own measure. */
  keepBytes: number | null;
  /** Streams from the first byte on. */
  attach: boolean;
}

export interface StartedExec {
  id: string;
  pid: number;
  /** Milliseconds since 1970. */
  startedAt: number;
  /** It was running already. */
  repeated: boolean;
  /** With `attach`. A reader that does not read holds the program up; destroying a stream lets it run on unread. */
  stdout: Readable | null;
  /** Null with a terminal too. */
  stderr: Readable | null;
}

export interface ExecAttachment {
  state: ExecState;
  /** What is no longer there, by stream. */
  dropped: { stdout: number; stderr: number };
  stdout: Readable;
  stderr: Readable | null;
}

export interface KeptOutput {
  /** All that the program wrote. */
  bytes: number;
  /** Of them, the middle that was not kept. */
  dropped: number;
  /** Head and tail with nothing between them; only with `collect`. */
  content: Buffer | null;
  /** Where in `content` the dropped bytes were. */
  head: number;
}

export interface ExecOutcome {
  id: string;
  exitCode: number | null;
  /** Without `SIG`. */
  signal: string | null;
  timedOut: boolean;
  oomKilled: boolean;
  durationMs: number;
  stdout: KeptOutput;
  stderr: KeptOutput;
  /** Programs it left running. */
  left: { pid: number; command: string }[];
}

export interface ExecState {
  id: string;
  state: "running" | "exited" | "detached" | "lost";
  argv: string[];
  pid: number | null;
  startedAt: number;
  /** Once its leader has ended. */
  exitCode: number | null;
  signal: string | null;
}

export interface WriteFileOptions {
  mode?: number | null;
  user?: string | null;
  /** Known length: another one is refused. */
  size?: number | null;
  parents?: boolean;
  signal?: AbortSignal;
}

export interface ReadFileOptions {
  offset?: number;
  length?: number | null;
  user?: string | null;
}

export interface ListFilesOptions {
  depth?: number;
  after?: string | null;
  user?: string | null;
}

export interface FileEntry {
  name: string;
  path: string;
  /** Where the path is no UTF-8. */
  path_base64?: string;
  kind: "file" | "folder" | "link" | "other";
  size: number;
  mode: number;
  uid: number;
  gid: number;
  mtime_ms: number;
  target: string | null;
}
