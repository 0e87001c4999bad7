import { randomBytes } from "node:crypto";
import { type MachineState, SandpoolError } from "@sandpool/protocol";
import type { LiveMachine } from "@sandpool/worker";
import type { Store } from "../store/openStore.ts";
import type { FoundMachine, MachineCatalog } from "./catalog.ts";
import { MachineEntry } from "./entry.ts";
import { type CreationKey, type DeletedMark, MachineStore } from "./machineStore.ts";
import type { MachineRecord } from "./record.ts";
import { canGo, machineLost, machineNotFound, requireFit } from "./states.ts";

const REMEMBERED_DELETED = 10_000;

/** Every machine this server answers for. Lookups never touch the store; every change is on disk before it is told. */
export class MachineRegistry implements MachineCatalog {
  readonly #store: MachineStore;
  readonly #entries = new Map<string, MachineEntry>();
  readonly #ids = new Set<string>();
  readonly #deleted = new Map<string, DeletedMark>();
  /** Takes a machine over that should run and is not connected. */
  #adopt: (entry: MachineEntry) => Promise<void> = async () => {};
  #onRunning: (entry: MachineEntry) => void = () => {};

  private constructor(store: MachineStore) {
    this.#store = store;
  }

  static async open(store: Store): Promise<MachineRegistry> {
    const registry = new MachineRegistry(new MachineStore(store));
    const { records, deleted } = await registry.#store.load();
    for (const record of records) registry.#keep(new MachineEntry(record));
    for (const mark of deleted) registry.#deleted.set(mark.id, mark);
    return registry;
  }

  /** Who takes over, and who is told of every machine that runs. */
  serve(adopt: (entry: MachineEntry) => Promise<void>, onRunning: (entry: MachineEntry) => void): void {
    this.#adopt = adopt;
    this.#onRunning = onRunning;
  }

  #keep(entry: MachineEntry): void {
    this.#entries.set(entry.id, entry);
    this.#ids.add(entry.id);
  }

  #drop(entry: MachineEntry): void {
    this.#entries.delete(entry.id);
    this.#ids.delete(entry.id);
  }

  /** Ids of all machines, as they come and go: one that is made while somebody looks is in it. */
  get ids(): ReadonlySet<string> {
    return this.#ids;
  }

  all(): MachineEntry[] {
    return [...this.#entries.values()];
  }

  ofOwner(owner: string): MachineEntry[] {
    return this.all().filter((entry) => entry.record.owner === owner);
  }

  byId(id: string): MachineEntry | null {
    return this.#entries.get(id) ?? null;
  }

  /** @throws `machine_not_found` */
  entry(owner: string, idOrName: string): MachineEntry {
    const byId = this.#entries.get(idOrName);
    if (byId?.record.owner === owner) return byId;
    const byName = this.all().find((entry) => entry.record.owner === owner && entry.record.name === idOrName);
    if (byName !== undefined) return byName;
    throw machineNotFound(idOrName);
  }

  /** The mark of a deleted machine of that id, else the newest of that name. */
  deletedMark(owner: string, idOrName: string): DeletedMark | null {
    const byId = this.#deleted.get(idOrName);
    if (byId?.owner === owner) return byId;
    const named = [...this.#deleted.values()].filter((mark) => mark.owner === owner && mark.name === idOrName);
    return named.at(-1) ?? null;
  }

  isNameTaken(owner: string, name: string): boolean {
    return this.all().some((entry) => entry.record.owner === owner && entry.record.name === name);
  }

  /** Takes the name at once, then writes it down. */
  async add(record: MachineRecord): Promise<MachineEntry> {
    const entry = new MachineEntry(record);
    this.#keep(entry);
    try {
      await this.#store.insert(record);
      return entry;
    } catch (error) {
      this.#drop(entry);
      throw error;
    }
  }

  /** Changes members that are no state. */
  async amend(entry: MachineEntry, change: Partial<Omit<MachineRecord, "id" | "owner" | "state">>): Promise<void> {
    entry.record = { ...entry.record, ...change };
    await this.#store.update(entry.record);
  }

  /**
   * Goes to another state.
   * @throws `machine_lost` where it is being deleted meanwhile
   */
  async go(
    entry: MachineEntry,
    state: MachineState,
    change: Partial<MachineRecord> = {},
    key: CreationKey | null = null,
  ): Promise<void> {
    const from = entry.record.state;
    if (!canGo(from, state)) {
      if (from === "deleting") throw machineLost(entry.record, "is being deleted");
      throw new Error(`machine ${entry.id} cannot go from ${from} to ${state}`);
    }
    entry.record = { ...entry.record, ...change, state };
    await this.#store.updateCreated(entry.record, key);
  }

  /** It runs, from now on. Calls that wait for its end are bound to this run. */
  setLive(entry: MachineEntry, live: LiveMachine): void {
    entry.live = live;
    entry.adoptionsFailed = 0;
    entry.end = new AbortController();
    this.#onRunning(entry);
  }

  /** It runs no more: whoever waits hears why. */
  setGone(entry: MachineEntry, why: SandpoolError): void {
    entry.live = null;
    clearTimeout(entry.saveTimer);
    entry.end.abort(why);
  }

  async forget(entry: MachineEntry): Promise<void> {
    if (this.#entries.get(entry.id) !== entry) return;
    entry.clearTimers();
    await this.#store.markDeleted(entry.record);
    this.#drop(entry);
    const { id, owner, name } = entry.record;
    this.#deleted.set(id, { id, owner, name });
    const oldest = this.#deleted.keys().next().value;
    if (this.#deleted.size > REMEMBERED_DELETED && oldest !== undefined) this.#deleted.delete(oldest);
    this.setGone(entry, machineLost(entry.record, "was deleted"));
  }

  async find(owner: string, idOrName: string): Promise<FoundMachine> {
    const mark = this.#entries.has(idOrName) ? null : this.#deleted.get(idOrName);
    if (mark?.owner === owner) throw machineLost(mark, "was deleted");
    return this.#running(this.entry(owner, idOrName));
  }

  async findById(id: string): Promise<FoundMachine> {
    const entry = this.#entries.get(id);
    if (entry === undefined) throw machineNotFound(id);
    return this.#running(entry);
  }

  async #running(entry: MachineEntry): Promise<FoundMachine> {
    if (entry.record.state === "running" && entry.live === null) await this.#adopt(entry);
    await entry.adopting;
    requireFit(entry.record, "use", "this call");
    if (entry.live === null) {
      throw new SandpoolError("agent_failed", `the machine ${entry.record.name} does not answer this server`, {
        hint: "the server tries again by itself; GET …/logs has the machine's last words",
        details: { id: entry.id, attempts: entry.adoptionsFailed },
      });
    }
    return { record: entry.record, live: entry.live };
  }

  record(owner: string, idOrName: string): Readonly<MachineRecord> {
    return this.entry(owner, idOrName).record;
  }

  recordById(id: string): Readonly<MachineRecord> | null {
    return this.#entries.get(id)?.record ?? null;
  }

  recordsByName(name: string): Readonly<MachineRecord>[] {
    return this.all()
      .map((entry) => entry.record)
      .filter((record) => record.name === name);
  }

  secretOf(machine: Readonly<MachineRecord>): Buffer {
    return Buffer.from(this.#require(machine).record.secret, "base64url");
  }

  async rotateSecret(machine: Readonly<MachineRecord>): Promise<void> {
    await this.amend(this.#require(machine), { secret: makeSecret() });
  }

  publicPorts(machine: Readonly<MachineRecord>): ReadonlySet<number> {
    return new Set(this.#require(machine).record.publicPorts);
  }

  async setPublicPort(machine: Readonly<MachineRecord>, port: number, isPublic: boolean): Promise<void> {
    const entry = this.#require(machine);
    const ports = new Set(entry.record.publicPorts);
    if (isPublic) ports.add(port);
    else ports.delete(port);
    await this.amend(entry, { publicPorts: [...ports].sort((a, b) => a - b) });
  }

  endOf(machine: Readonly<MachineRecord>): AbortSignal {
    return this.#require(machine).end.signal;
  }

  #require(machine: Readonly<MachineRecord>): MachineEntry {
    const entry = this.#entries.get(machine.id);
    if (entry === undefined) throw machineLost(machine, "was deleted");
    return entry;
  }
}

export function makeSecret(): string {
  return randomBytes(32).toString("base64url");
}
