import { readFile } from "node:fs/promises";
import { MACHINE_STATES, type MachineState } from "@sandpool/protocol";
import type { ImageStore, MachineHost, Networks } from "@sandpool/worker";
import type { Logger } from "pino";
import { serverClosing } from "../http/serverClosing.ts";
import type { ServerLimits } from "../options.ts";
import type { Store } from "../store/openStore.ts";
import type { OperationJournal } from "../store/operations.ts";
import { StartQueue } from "./admission.ts";
import { type MachineContext, serverItself } from "./context.ts";
import { MachineCreator } from "./create.ts";
import { watchEnd } from "./ended.ts";
import type { MachineEntry } from "./entry.ts";
import { CreationRecords } from "./idempotency.ts";
import { Reconciler } from "./reconcile.ts";
import { MachineRegistry } from "./registry.ts";
import { stopMachine } from "./stop.ts";
import { armExpiry, DiskSaver } from "./timers.ts";
import { Turns } from "./turns.ts";

const STOPS_AT_ONCE = 4;

export interface MachineParts {
  host: MachineHost;
  images: ImageStore;
  networks: Networks;
  store: Store;
  journal: OperationJournal;
  limits: ServerLimits;
  dataDir: string;
  logger: Logger;
}

/** Everything the server does with machines. */
export class Machines {
  readonly context: MachineContext;
  readonly registry: MachineRegistry;
  readonly creator: MachineCreator;
  readonly #reconciler: Reconciler;
  readonly #saver: DiskSaver;

  private constructor(context: MachineContext, creator: MachineCreator) {
    this.context = context;
    this.registry = context.registry;
    this.creator = creator;
    this.#reconciler = new Reconciler(context);
    this.#saver = new DiskSaver(context);
    this.registry.serve(
      (entry) => this.#reconciler.adopt(entry),
      (entry) => this.#onRunning(entry),
    );
  }

  static async open(parts: MachineParts): Promise<Machines> {
    const { store, ...rest } = parts;
    const registry = await MachineRegistry.open(store);
    const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "latin1").catch(() => "unknown")).trim();
    const context = { ...rest, registry, bootId, queue: new StartQueue(parts.limits) };
    return new Machines(context, new MachineCreator(context, new CreationRecords(store)));
  }

  #onRunning(entry: MachineEntry): void {
    if (entry.live !== null) watchEnd(this.context, entry, entry.live);
    armExpiry(this.context, entry);
    this.#saver.arm(entry);
  }

  /** Takes over what an earlier server left, in the background. `held` is what the host held before anything was made. */
  async begin(held: readonly string[]): Promise<void> {
    for (const entry of this.registry.all()) await this.#extendLease(entry);
    this.#reconciler.begin(held);
  }

  /** Nobody could renew a lease while no server ran. */
  async #extendLease(entry: MachineEntry): Promise<void> {
    const { leaseSeconds, leaseUntil } = entry.record;
    if (leaseSeconds !== null && leaseUntil !== null) {
      const whole = new Date(Date.now() + leaseSeconds * 1000).toISOString();
      if (whole > leaseUntil) await this.registry.amend(entry, { leaseUntil: whole });
    }
    armExpiry(this.context, entry);
  }

  /** Resolves when everything of an earlier server is taken over or cleared away. */
  settled(): Promise<void> {
    return this.#reconciler.settled();
  }

  countByState(): Record<MachineState, number> {
    const counts = Object.fromEntries(MACHINE_STATES.map((state) => [state, 0])) as Record<MachineState, number>;
    for (const entry of this.registry.all()) counts[entry.record.state] += 1;
    return counts;
  }

  /** Those that run on when the server ends now. */
  running(): { id: string; name: string; owner: string }[] {
    const running = this.registry.all().filter((entry) => entry.record.state === "running");
    return running.map(({ record: { id, name, owner } }) => ({ id, name, owner }));
  }

  /**
   * Rolls back creations, waits for what is under way, and leaves the machines alone; with `stop` each is stopped first, its
   * disk saved. One that cannot be is logged, and runs on.
   */
  async close({ stop }: { stop: boolean }): Promise<void> {
    await this.creator.abortAll();
    await this.#reconciler.close();
    if (stop) await this.#stopAll();
    await this.#saver.close();
    for (const entry of this.registry.all()) {
      entry.clearTimers();
      if (entry.record.state === "starting") entry.abort.abort(serverClosing());
      await entry.settled();
      entry.clearTimers();
    }
  }

  async #stopAll(): Promise<void> {
    const turns = new Turns(STOPS_AT_ONCE);
    const running = this.registry
      .all()
      .filter(({ record }) => record.state === "running" || record.state === "stopping");
    const stopOne = async (entry: MachineEntry) => {
      try {
        await stopMachine(this.context, entry, serverItself(entry));
      } catch (error) {
        this.context.logger.error({ err: error, machine: entry.id }, "a machine could not be stopped");
      }
    };
    await Promise.all(running.map((entry) => turns.run(null, () => stopOne(entry))));
  }
}
