import type { ChildProcess } from "node:child_process";
import { DriverError } from "../../driver.ts";
import type {
  Checkpoint,
  CheckpointOptions,
  MachineDriver,
  MachineNetwork,
  MachineSpec,
  Quiet,
  RestoredConnection,
  RestoredIdentity,
  ShimConnection,
} from "../../machine.ts";
import { connectShim, endedEarly, isExit, type ShimTalk, waitUntilCreated, waitUntilRunning } from "../connect.ts";
import type { MachineFolders } from "../folders.ts";
import type { MachineKind } from "../kind.ts";
import { type MachineRecord, readRecord, writeJson } from "../record.ts";
import { writeCheckpoint } from "./checkpoint.ts";
import { askToRestore, checkState, thaw } from "./restore.ts";
import { pauseMachine, resumeMachine } from "./suspend.ts";

type SetUpNetwork = (network: MachineNetwork) => Promise<void>;

/** What the driver lends. */
export interface Lent {
  kind: MachineKind;
  shim(): string;
  folders(id: string): MachineFolders;
  warn(message: string): void;
  prepare(spec: MachineSpec, signal: AbortSignal): Promise<void>;
  start(id: string): ChildProcess;
  /** The shim that this process has started for a machine. */
  child(id: string): ChildProcess | null;
  openNetwork(id: string, talk: ShimTalk, signal: AbortSignal, setUpNetwork?: SetUpNetwork): Promise<void>;
  greet(id: string, talk: ShimTalk, status: ShimConnection["shim"], signal: AbortSignal): Promise<ShimConnection>;
  rollBack(id: string): Promise<void>;
  within(signal: AbortSignal): AbortSignal;
}

/** The part of a driver that keeps states and makes machines of them. */
export class MachineStates
  implements Pick<MachineDriver, "pause" | "resume" | "checkpoint" | "prepareRestore" | "restore">
{
  readonly #lent: Lent;
  /** States that this process has just written, for copies at once. */
  readonly #transient = new Set<string>();

  constructor(lent: Lent) {
    this.#lent = lent;
  }

  async pause(id: string): Promise<void> {
    await this.#record(id);
    await pauseMachine(this.#lent.shim(), this.#lent.folders(id), id);
  }

  async resume(id: string): Promise<{ awayMs: number }> {
    await this.#record(id);
    return await resumeMachine(this.#lent.shim(), this.#lent.folders(id), id);
  }

  async checkpoint(id: string, folder: string, session: Quiet, options: CheckpointOptions): Promise<Checkpoint> {
    const { shim, folders, warn } = this.#lent;
    const record = await this.#record(id);
    const place = { folders: folders(id), folder };
    const written = await writeCheckpoint({ shim: shim(), record, ...place, session, options, warn });
    if (options.transient === true) this.#transient.add(folder);
    else this.#transient.delete(folder);
    return written;
  }

  async prepareRestore(spec: MachineSpec, signal: AbortSignal, setUpNetwork?: SetUpNetwork): Promise<void> {
    const { prepare, start, folders, within, openNetwork, rollBack } = this.#lent;
    this.#refuseOthers(spec.id);
    await prepare(spec, signal);
    try {
      const connected = await connectShim(folders(spec.id), start(spec.id), within(signal));
      if (isExit(connected)) throw endedEarly(connected);
      const { talk, status } = connected;
      try {
        if (status.state === "waiting") await openNetwork(spec.id, talk, signal, setUpNetwork);
        await waitUntilCreated(talk, status, within(signal));
      } finally {
        talk.socket.destroy();
      }
    } catch (error) {
      await rollBack(spec.id);
      throw error;
    }
  }

  async restore(
    id: string,
    folder: string,
    identity: RestoredIdentity,
    signal: AbortSignal,
  ): Promise<RestoredConnection> {
    const { folders, rollBack } = this.#lent;
    const record = await this.#record(id);
    try {
      await checkState(folders(id), record, folder, this.#transient.has(folder));
      signal.throwIfAborted();
      await writeJson(folders(id).record, { ...record, generation: identity.generation });
      return await this.#putInto(id, record, folder, identity, signal);
    } catch (error) {
      await rollBack(id);
      throw error;
    }
  }

  async #putInto(
    id: string,
    record: MachineRecord,
    folder: string,
    identity: RestoredIdentity,
    signal: AbortSignal,
  ): Promise<RestoredConnection> {
    const { folders, child, within, greet } = this.#lent;
    const connected = await connectShim(folders(id), child(id), within(signal));
    if (isExit(connected)) throw endedEarly(connected);
    const { talk, status } = connected;
    try {
      await askToRestore(talk, folder, within(signal));
      const shim = await waitUntilRunning(talk, { ...status, state: "restoring" }, signal);
      const restored = await thaw(talk, record, identity, signal);
      return { ...(await greet(id, talk, shim, signal)), restored };
    } catch (error) {
      talk.socket.destroy();
      throw error;
    }
  }

  async #record(id: string): Promise<MachineRecord> {
    this.#refuseOthers(id);
    const record = await readRecord(this.#lent.folders(id));
    if (record !== null) return record;
    throw new DriverError("machine_unknown", `machine ${id} is not running on this host`, "see the machine's state");
  }

  #refuseOthers(id: string): void {
    const { name, canFork } = this.#lent.kind;
    if (canFork) return;
    throw new DriverError(
      "fork_unsupported",
      `machine ${id} has the driver ${name}, which keeps no states`,
      "make it with the driver gvisor",
    );
  }
}
