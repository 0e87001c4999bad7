import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { SandpoolError } from "@sandpool/protocol";
import { type HostFolders, hostFolders, makeHostFolders } from "../../host/folders.ts";
import { ownIdentity } from "../../host/identity.ts";
import { DriverError } from "../driver.ts";
import type { DriverOptions } from "../drivers.ts";
import type {
  MachineDriver,
  MachineDriverName,
  MachineExit,
  MachineNetwork,
  MachineProbe,
  MachineSpec,
  SavedDisk,
  ShimConnection,
} from "../machine.ts";
import { checkMachineId, checkMachineSpec, isMachineId } from "./check.ts";
import { connectShim, endedEarly, isExit, readExit, refuseExit, type ShimTalk, waitUntilRunning } from "./connect.ts";
import { keepTar, unpackTar } from "./disk.ts";
import { type MachineFolders, machineFolders } from "./folders.ts";
import { ensureHostImage, ensureMountPoints } from "./host-image.ts";
import type { MachineKind, MachineRuntime } from "./kind.ts";
import { resumeIfPaused, whilePaused } from "./pause.ts";
import { AGENT_TARGET } from "./plan.ts";
import { prepareMachine } from "./prepare.ts";
import { probeByStarting } from "./probe.ts";
import { readJson, readRecord } from "./record.ts";
import { removeMachine } from "./remove.ts";
import { findShim, shimPid, startShim } from "./shim.ts";
import { MachineStates } from "./states/states.ts";
import { resumeMachine } from "./states/suspend.ts";
import { transientMachines } from "./transient.ts";

/** What an agent needs to answer for the first time, at most. */
const ANSWER_LIMIT_MS = 60_000;

/** Machines under an OCI runtime; the kind knows the runtime. */
export class OciMachineDriver implements MachineDriver {
  readonly name: MachineDriverName;
  readonly #kind: MachineKind;
  readonly #dataDir: string;
  readonly #host: HostFolders;
  readonly #shared: { hostImage: string; mountPoints: string };
  readonly #agentPath: string | null;
  readonly #warn: (message: string) => void;
  #ready: Promise<MachineRuntime> | null = null;
  #probed: Promise<MachineProbe> | null = null;
  /** Shims that this process has just started. */
  readonly #children = new Map<string, ChildProcess>();
  readonly #removals = new Map<string, Promise<void>>();
  readonly #states: MachineStates;

  constructor(kind: MachineKind, options: DriverOptions) {
    this.name = kind.name;
    this.#kind = kind;
    this.#dataDir = options.dataDir;
    this.#host = hostFolders(options.dataDir);
    this.#shared = { hostImage: `${this.#host.own}/host-image`, mountPoints: `${this.#host.own}/mount-points` };
    this.#agentPath = options.agentPath;
    this.#warn = options.warn ?? ((): void => undefined);
    this.#states = new MachineStates({
      ...{ kind, within, shim: () => this.#shim(), folders: (id) => this.#folders(id), warn: this.#warn },
      prepare: (spec, signal) => this.#prepare(spec, AGENT_ARGV, signal, true),
      start: (id) => this.#start(this.#folders(id), id, false),
      child: (id) => this.#children.get(id) ?? null,
      openNetwork: (...call) => this.#openNetwork(...call),
      greet: (...call) => this.#greet(...call),
      rollBack: (id) => this.#rollBack(id),
    });
  }

  probeMachines(): Promise<MachineProbe> {
    this.#probed ??= probeByStarting(this.#kind, this.#agentPath, (spec, argv) => this.#try(spec, argv));
    return this.#probed;
  }

  async prepare(spec: MachineSpec, signal: AbortSignal): Promise<void> {
    await this.#prepare(spec, AGENT_ARGV, signal);
  }

  async loadDisk(id: string, file: string): Promise<void> {
    const folders = this.#folders(id);
    const record = await readRecord(folders);
    if (record === null || existsSync(`${folders.folder}/shim.pid`)) throw unknown(id, "prepared and not launched");
    await unpackTar(file, `${folders.data}/disk.tar`);
    await this.#kind.useDisk(folders, record);
  }

  async launch(
    id: string,
    signal: AbortSignal = NEVER,
    setUpNetwork?: (network: MachineNetwork) => Promise<void>,
  ): Promise<ShimConnection> {
    const folders = this.#folders(id);
    if (!existsSync(folders.shimSettings) || existsSync(`${folders.folder}/shim.pid`)) {
      throw unknown(id, "prepared and not launched");
    }
    try {
      signal.throwIfAborted();
      const child = this.#start(folders, id, false);
      const connected = await connectShim(folders, child, within(signal));
      if (isExit(connected)) throw endedEarly(connected);
      if (connected.status.state === "waiting") await this.#openNetwork(id, connected.talk, signal, setUpNetwork);
      return await this.#greet(id, connected.talk, connected.status, signal);
    } catch (error) {
      await this.#rollBack(id);
      throw startFailure(id, error, signal);
    }
  }

  async adopt(id: string): Promise<ShimConnection | MachineExit> {
    const folders = this.#folders(id);
    const record = await readRecord(folders);
    if (record === null || !existsSync(folders.shimSettings)) throw unknown(id, "launched");
    const owner = { process: ownIdentity(), key: this.#host.key, sandboxId: id };
    await writeFile(`${this.#host.uids}/${record.slot}`, JSON.stringify(owner), { mode: 0o600 });
    await resumeIfPaused(this.#shim(), folders, id);
    await resumeMachine(this.#shim(), folders, id).catch((error: Error) => this.#warn(error.message));
    const isHeld = (await shimPid(folders)) !== null;
    const child = isHeld || existsSync(`${folders.folder}/exit.json`) ? null : this.#start(folders, id, true);
    const connected = await connectShim(folders, child, within(NEVER));
    if (isExit(connected)) return connected;
    if (connected.status.exit !== null) return connected.status.exit;
    if (UNSTARTED.has(connected.status.state)) return await endWaiting(connected.talk);
    try {
      return await this.#greet(id, connected.talk, connected.status, NEVER);
    } catch (error) {
      // It ended just now.
      const exit = await readExit(folders);
      if (exit === null) throw error;
      return exit;
    }
  }

  async findNetwork(id: string): Promise<MachineNetwork | null> {
    const folders = this.#folders(id);
    const record = await readRecord(folders);
    const holder = await readJson<{ pid: number }>(`${folders.folder}/holder.json`);
    if (record?.spec.network.kind !== "own" || holder === null) return null;
    return { pid: holder.pid, path: `/proc/${holder.pid}/ns/net` };
  }

  async list(): Promise<string[]> {
    const running = await readdir(this.#host.machines).catch(() => []);
    const kept = await readdir(`${this.#dataDir}/machines`).catch(() => []);
    const ids = new Set(running.filter(isMachineId));
    // After a boot only the disk is left.
    for (const id of kept.filter(isMachineId)) if (existsSync(machineFolders(this.#dataDir, id).layer)) ids.add(id);
    return [...ids];
  }

  async saveDisk(id: string, file: string): Promise<SavedDisk> {
    const folders = this.#folders(id);
    const shim = this.#shim();
    if ((await readRecord(folders)) === null) throw unknown(id, "running");
    return await whilePaused(shim, folders, id, () =>
      keepTar(shim, [folders.folder, ...this.#kind.tarArguments(folders, id)], file),
    );
  }

  async readLogs(id: string): Promise<Buffer> {
    const { folder } = this.#folders(id);
    const parts = ["stderr.old", "stderr"].map((name) => readFile(`${folder}/${name}`).catch(() => Buffer.alloc(0)));
    return Buffer.concat(await Promise.all(parts));
  }

  pause(id: string): Promise<void> {
    return this.#states.pause(id);
  }

  resume(id: string): Promise<{ awayMs: number }> {
    return this.#states.resume(id);
  }

  checkpoint(...call: Parameters<MachineDriver["checkpoint"]>): ReturnType<MachineDriver["checkpoint"]> {
    return this.#states.checkpoint(...call);
  }

  prepareRestore(...call: Parameters<MachineDriver["prepareRestore"]>): Promise<void> {
    return this.#states.prepareRestore(...call);
  }

  restore(...call: Parameters<MachineDriver["restore"]>): ReturnType<MachineDriver["restore"]> {
    return this.#states.restore(...call);
  }

  remove(id: string): Promise<void> {
    const running = this.#removals.get(id);
    if (running !== undefined) return running;
    const folders = this.#folders(id);
    const shim = findShim(this.#agentPath);
    const removal = removeMachine(this.#host, folders, id, shim, this.#children.get(id) ?? null).finally(() => {
      this.#removals.delete(id);
      this.#children.delete(id);
    });
    this.#removals.set(id, removal);
    return removal;
  }

  async #prepare(spec: MachineSpec, argv: readonly string[], signal: AbortSignal, restore = false): Promise<void> {
    await checkMachineSpec(spec);
    signal.throwIfAborted();
    const folders = this.#folders(spec.id);
    const runtime = await this.#runtime();
    if (existsSync(folders.folder))
      throw new DriverError("sandbox_spec_invalid", `the machine id ${spec.id} is in use`, "choose another");
    const agentPath = this.#agentPath as string;
    try {
      await prepareMachine({
        ...{
          spec,
          argv,
          kind: this.#kind,
          runtime,
          host: this.#host,
          folders,
          shared: this.#shared,
          agentPath,
          restore,
          signal,
        },
      });
      signal.throwIfAborted();
    } catch (error) {
      await this.#rollBack(spec.id);
      throw error;
    }
  }

  /** The failure that led to it is the one to be told. */
  async #rollBack(id: string): Promise<void> {
    await this.remove(id).catch((failure: Error) => this.#warn(failure.message));
  }

  /** Starts a machine whose program is not the agent, and tells how it ended. */
  async #try(spec: MachineSpec, argv: readonly string[]): Promise<MachineExit> {
    transientMachines.add(spec.id);
    try {
      await this.#prepare(spec, argv, NEVER);
      const folders = this.#folders(spec.id);
      const signal = within(NEVER);
      const connected = await connectShim(folders, this.#start(folders, spec.id, false), signal);
      if (isExit(connected)) return connected;
      for (;;) {
        const { head } = await connected.talk.next(signal);
        if (head.event === "exit") return head as unknown as MachineExit;
      }
    } finally {
      await this.remove(spec.id);
      transientMachines.delete(spec.id);
    }
  }

  async #greet(
    id: string,
    talk: ShimTalk,
    status: ShimConnection["shim"],
    signal: AbortSignal,
  ): Promise<ShimConnection> {
    const limit = within(signal);
    try {
      const shim = await waitUntilRunning(talk, status, limit);
      const { spec, generation = 0 } = (await readRecord(this.#folders(id))) ?? { spec: null };
      if (spec === null) throw unknown(id, "launched");
      const { hostname, memoryBytes, environ } = spec;
      const agent = await talk.ask(
        {
          ...{ op: "machine", id, hostname, memory_bytes: memoryBytes, environ, generation },
          ...{ wall_clock_ms: Date.now(), unprivileged: this.#kind.unprivileged },
        },
        limit,
        refuseExit,
      );
      if (agent.ok !== true) throw refused(id, agent);
      return { id, socket: talk.release(), shim, agent };
    } catch (error) {
      talk.socket.destroy();
      throw error;
    }
  }

  async #openNetwork(
    id: string,
    talk: ShimTalk,
    signal: AbortSignal,
    setUpNetwork?: (network: MachineNetwork) => Promise<void>,
  ): Promise<void> {
    const network = await this.findNetwork(id);
    if (network === null) throw unknown(id, "running");
    await setUpNetwork?.(network);
    await talk.ask({ op: "shim.create" }, within(signal), refuseExit);
  }

  #start(folders: MachineFolders, id: string, adopt: boolean): ChildProcess {
    const child = startShim(this.#shim(), folders, adopt);
    this.#children.set(id, child);
    child.once("exit", () => {
      if (this.#children.get(id) === child) this.#children.delete(id);
    });
    return child;
  }

  #shim(): string {
    const shim = findShim(this.#agentPath);
    if (shim !== null) return shim;
    throw new DriverError(
      "driver_unavailable",
      "the shim's binary was not found beside the agent",
      "build it (cargo build --release in agent/) or name it in SANDPOOL_SHIM",
    );
  }

  /** Looks at the host and makes the shared folders, once. A failure is tried again. */
  #runtime(): Promise<MachineRuntime> {
    this.#ready ??= this.#findRuntime().catch((error: unknown) => {
      this.#ready = null;
      throw error;
    });
    return this.#ready;
  }

  async #findRuntime(): Promise<MachineRuntime> {
    const runtime = await this.#kind.detect();
    if ("reason" in runtime) {
      throw new DriverError(
        "driver_unavailable",
        `the ${this.name} driver cannot run here: ${runtime.reason}`,
        runtime.hint,
      );
    }
    this.#shim();
    await makeHostFolders(this.#host);
    await ensureHostImage(this.#shared.hostImage);
    await ensureMountPoints(this.#shared.mountPoints);
    return runtime;
  }

  #folders(id: string): MachineFolders {
    checkMachineId(id);
    return machineFolders(this.#dataDir, id);
  }
}

const NEVER = new AbortController().signal;
const AGENT_ARGV = [AGENT_TARGET, "machine"];
const UNSTARTED = new Set(["waiting", "created", "restoring"]);

/** Its server died before its network was set up: nothing of it has run. */
async function endWaiting(talk: ShimTalk): Promise<MachineExit> {
  const { exit } = await talk.ask({ op: "shim.kill" }, within(NEVER), () => undefined);
  talk.socket.destroy();
  return exit as MachineExit;
}

function within(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ANSWER_LIMIT_MS)]);
}

/** A shim that was killed, or that was silent for too long, is told as what it came to: the machine did not start. */
function startFailure(id: string, error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof DriverError || error instanceof SandpoolError) return error;
  return new DriverError(
    "sandbox_start_failed",
    `machine ${id} could not be started: ${(error as Error).message}`,
    "nothing of it is left; try again, and if it fails again run `sandpool doctor`",
    {},
    { cause: error },
  );
}

function unknown(id: string, expected: string): DriverError {
  return new DriverError("machine_unknown", `machine ${id} is not ${expected} on this host`, "see the machine's state");
}

function refused(id: string, reply: Record<string, unknown>): DriverError {
  const { message } = (reply.error ?? {}) as { message?: unknown };
  const said = typeof message === "string" ? message.slice(0, 500) : "it gave no reason";
  return new DriverError(
    "sandbox_start_failed",
    `the agent of machine ${id} refused: ${said}`,
    "use one release throughout",
  );
}
