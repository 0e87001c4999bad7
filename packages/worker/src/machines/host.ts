import { availableParallelism } from "node:os";
import type { SandpoolError } from "@sandpool/protocol";
import { DriverError } from "../drivers/driver.ts";
import type { MachineDriver, MachineExit, MachineProbe, ShimConnection } from "../drivers/machine.ts";
import { transientMachines } from "../drivers/machines/transient.ts";
import { fail } from "../fail.ts";
import type { LiveMachine, MachineCreateOptions, MachineHost, MachinePlan } from "./contract.ts";
import { causeOf, checkImage, createMachine } from "./create.ts";
import { saveDisk } from "./disk.ts";
import { renewNameServer, writeNameFiles } from "./inside.ts";
import { makeLiveMachine } from "./live.ts";
import { findMemoryGroup } from "./memory.ts";
import type { MachineHostOptions } from "./options.ts";
import { driverFailure } from "./session/errors.ts";
import { MachineSession } from "./session/session.ts";
import { Turns } from "./turns.ts";

/** Machines of this host; which ones there should be, the server knows. */
export function createMachineHost(options: MachineHostOptions): MachineHost {
  return new Host(options);
}

interface Running {
  session: MachineSession;
  live: LiveMachine;
}

interface Making {
  stop: AbortController;
  over: Promise<unknown>;
}

class Host implements MachineHost {
  readonly #options: MachineHostOptions;
  readonly #turns: Turns;
  readonly #warn: (message: string) => void;
  readonly #running = new Map<string, Running>();
  readonly #making = new Map<string, Making>();
  readonly #adopting = new Map<string, Promise<LiveMachine | MachineExit | null>>();
  /** Removals, and what is taken away after an end: nothing of that id begins before. */
  readonly #leaving = new Map<string, Promise<unknown>>();
  #isClosed = false;

  constructor(options: MachineHostOptions) {
    this.#options = options;
    this.#turns = new Turns(options.startsAtOnce ?? availableParallelism() + 2);
    this.#warn = options.warn ?? ((): void => undefined);
  }

  async probe(): Promise<MachineProbe[]> {
    return await Promise.all([...this.#options.drivers.values()].map((driver) => driver.probeMachines()));
  }

  async create(plan: MachinePlan, options: MachineCreateOptions): Promise<LiveMachine> {
    if (this.#isClosed) throw fail("server_closing", "The server is shutting down.", { hint: "Ask the next one." });
    if (this.#making.has(plan.id) || this.#running.has(plan.id)) throw inUse(plan.id);
    const stop = new AbortController();
    const signal = AbortSignal.any([options.signal, stop.signal]);
    const made = this.#create(plan, { ...options, signal }).finally(() => this.#making.delete(plan.id));
    this.#making.set(plan.id, { stop, over: made.catch(() => undefined) });
    return await made.catch((error: unknown) => {
      throw driverFailure(causeOf(error, signal));
    });
  }

  async adopt(plan: MachinePlan): Promise<LiveMachine | MachineExit | null> {
    const known = this.#running.get(plan.id);
    if (known !== undefined) return known.live;
    // Two connections would end each other.
    const adopting = this.#adopting.get(plan.id);
    if (adopting !== undefined) return await adopting;
    const adopted = this.#adopt(plan).finally(() => this.#adopting.delete(plan.id));
    this.#adopting.set(plan.id, adopted);
    return await adopted;
  }

  async #adopt(plan: MachinePlan): Promise<LiveMachine | MachineExit | null> {
    await this.#leaving.get(plan.id);
    const driver = this.#driver(plan);
    try {
      const found = await driver.adopt(plan.id);
      if ("at" in found) return found;
      return await this.#keep(found, driver, plan, await this.#adoptNetwork(plan, driver));
    } catch (error) {
      if (error instanceof DriverError && error.code === "machine_unknown") return null;
      throw driverFailure(error);
    }
  }

  async list(): Promise<string[]> {
    const lists = await Promise.all([...this.#options.drivers.values()].map((driver) => driver.list()));
    return [...new Set(lists.flat())].filter((id) => !transientMachines.has(id));
  }

  async remove(id: string): Promise<void> {
    const making = this.#making.get(id);
    making?.stop.abort(removedMeanwhile(id));
    await making?.over;
    await this.#remove(id).catch((error: unknown) => {
      throw driverFailure(error);
    });
  }

  async readLogs(id: string): Promise<Buffer> {
    return await this.#anyDriver().readLogs(id);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { stop } of this.#making.values()) stop.abort(closing());
    await Promise.all([...this.#making.values()].map(({ over }) => over));
    for (const { session } of this.#running.values()) session.close(null);
    this.#running.clear();
    await Promise.allSettled(this.#leaving.values());
  }

  async #create(plan: MachinePlan, options: MachineCreateOptions): Promise<LiveMachine> {
    const driver = this.#driver(plan);
    const image = await this.#options.images.resolve(plan.imageId);
    checkImage(image, plan);
    await this.#leaving.get(plan.id);
    return await this.#turns.run(options.signal, async () => {
      try {
        const { connection, network } = await createMachine(plan, image, driver, this.#options.networks, options);
        const live = await this.#keep(connection, driver, plan, network?.outerAddress ?? null);
        await this.#finish(plan, options);
        return live;
      } catch (error) {
        // The failure that led here is the one to be told; what cannot be removed is found by `list`.
        await this.#remove(plan.id).catch((failure: Error) => this.#warn(failure.message));
        throw error;
      }
    });
  }

  async #finish(plan: MachinePlan, { signal, disk = null }: MachineCreateOptions): Promise<void> {
    const { session } = this.#running.get(plan.id) as Running;
    const { resolvConf } = this.#options.networks.inside(plan.network);
    const files = { hostname: plan.name, resolvConf };
    await (disk === null ? writeNameFiles(session, files) : renewNameServer(session, files));
    signal.throwIfAborted();
  }

  async #keep(
    connection: ShimConnection,
    driver: MachineDriver,
    plan: MachinePlan,
    outerAddress: string | null,
  ): Promise<LiveMachine> {
    const { dataDir, networks } = this.#options;
    const memoryGroup = await findMemoryGroup(dataDir, plan.id);
    const session = new MachineSession(connection, { driver, warn: this.#warn });
    const live = makeLiveMachine({
      session,
      outerAddress,
      networkEnviron: networks.inside(plan.network).environ,
      saveDisk: (file) => saveDisk(session, driver, file),
      memoryGroup,
    });
    this.#running.set(plan.id, { session, live });
    void session.ended.then(() => this.#ended(plan.id, session));
    return live;
  }

  #ended(id: string, session: MachineSession): void {
    if (this.#running.get(id)?.session !== session) return;
    this.#running.delete(id);
    const { networks } = this.#options;
    void this.#leave(id, async () => {
      await networks.disconnect(id).catch((error: Error) => this.#warn(error.message));
    });
  }

  /** A network whose rules cannot be made to stand is taken away; the machine runs on without. */
  async #adoptNetwork(plan: MachinePlan, driver: MachineDriver): Promise<string | null> {
    const { networks } = this.#options;
    const network = await driver.findNetwork(plan.id);
    if (network === null) return null;
    try {
      return (await networks.adopt(plan.id, plan.network, network)).outerAddress;
    } catch (error) {
      this.#warn(`machine ${plan.id} goes on without a network: ${(error as Error).message}`);
      await networks.disconnect(plan.id);
      return null;
    }
  }

  async #remove(id: string): Promise<void> {
    const running = this.#running.get(id);
    this.#running.delete(id);
    const removal = this.#leave(id, async () => {
      // The machine first: its namespace holds the network.
      await this.#anyDriver().remove(id);
      await this.#options.networks.disconnect(id);
    });
    running?.session.close(removal);
    await removal;
  }

  /** One after the other. */
  async #leave(id: string, work: () => Promise<void>): Promise<void> {
    const before = this.#leaving.get(id) ?? Promise.resolve();
    const left = before.then(work);
    const kept = left
      .catch(() => undefined)
      .then(() => {
        if (this.#leaving.get(id) === kept) this.#leaving.delete(id);
      });
    this.#leaving.set(id, kept);
    await left;
  }

  #driver({ driver: name }: MachinePlan): MachineDriver {
    const driver = this.#options.drivers.get(name);
    if (driver !== undefined) return driver;
    throw fail("driver_unavailable", `There is no machine driver ${JSON.stringify(name)}.`, {
      hint: `Expected one of ${[...this.#options.drivers.keys()].join(", ")}.`,
    });
  }

  /** What does not depend on the kind: all drivers share one folder. */
  #anyDriver(): MachineDriver {
    return this.#options.drivers.values().next().value as MachineDriver;
  }
}

function inUse(id: string): SandpoolError {
  return fail("machine_state", `Machine ${id} runs already, or is being made.`, {
    hint: "Stop it first, or use another id.",
  });
}

function removedMeanwhile(id: string): SandpoolError {
  return fail("machine_lost", `Machine ${id} was deleted while it was being made.`, { hint: "Make a new one." });
}

function closing(): SandpoolError {
  return fail("server_closing", "The server is shutting down; the machine was not made.", {
    hint: "Ask again when it is back.",
  });
}
