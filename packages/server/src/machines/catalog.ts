import type { LiveMachine } from "@sandpool/worker";
import type { MachineRecord } from "./record.ts";

/** A machine that runs, for one call: the record as it is now, and the machine itself. */
export interface FoundMachine {
  record: Readonly<MachineRecord>;
  live: LiveMachine;
}

/** What the routes of exec, files and ports need of the machines. */
export interface MachineCatalog {
  /**
   * The running machine of that id or name; waits while the server takes it over after a restart.
   * @throws `machine_not_found` (another owner's too), `machine_state` where it does not run, `machine_lost` where it has just been deleted
   */
  find(owner: string, idOrName: string): Promise<FoundMachine>;
  /** The same for a call that shows no key: by id only, of any owner. */
  findById(id: string): Promise<FoundMachine>;
  /** The record alone, whatever its state. @throws `machine_not_found` */
  record(owner: string, idOrName: string): Readonly<MachineRecord>;
  /** By id, of any owner; null where there is none. */
  recordById(id: string): Readonly<MachineRecord> | null;
  /** The machine of a public or linked address `PORT-NAME.localhost`: names of several owners may be the same, so all of them. */
  recordsByName(name: string): Readonly<MachineRecord>[];
  /** What signs this machine's links: 32 bytes of its own. */
  secretOf(machine: Readonly<MachineRecord>): Buffer;
  /** Makes every link given out so far worthless. */
  rotateSecret(machine: Readonly<MachineRecord>): Promise<void>;
  /** Ports that answer without a key. */
  publicPorts(machine: Readonly<MachineRecord>): ReadonlySet<number>;
  setPublicPort(machine: Readonly<MachineRecord>, port: number, isPublic: boolean): Promise<void>;
  /** What wakes waiting calls when the machine is no longer what they found: aborts with `machine_state` or `machine_lost`. */
  endOf(machine: Readonly<MachineRecord>): AbortSignal;
}
