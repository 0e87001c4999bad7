import { type MachineContext, serverItself } from "./context.ts";
import { deleteMachine } from "./delete.ts";
import { removeDisk } from "./disk.ts";
import { free, reasonOf, recordEnd } from "./ended.ts";
import type { MachineEntry } from "./entry.ts";
import { finishStop } from "./stop.ts";
import { expire, isExpired } from "./timers.ts";
import { Turns } from "./turns.ts";

const AT_ONCE = 4;
/** A machine that could not be taken over so often is given up. */
const ATTEMPTS = 3;

/** Brings what the store says and what the host holds together: at the start of the server in the background, then once a minute. */
export class Reconciler {
  readonly #context: MachineContext;
  readonly #turns = new Turns(AT_ONCE);
  /** Held by the host and unknown here, at the last look. */
  #unknown = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(context: MachineContext) {
    this.#context = context;
  }

  /**
   * Calls to a machine wait from now on until it is taken over. Returns at once; `held` is what the host held before this
   * server could make anything.
   */
  begin(held: readonly string[]): void {
    const { registry, limits } = this.#context;
    const works = registry.all().map((entry) => {
      return needsAdoption(entry) ? this.adopt(entry) : this.#finishInTurn(entry);
    });
    const unknown = held.filter((id) => registry.byId(id) === null);
    this.#running = Promise.all(works).then(async () => {
      for (const id of unknown) await this.#removeUnknown(id);
      await this.#context.networks.reconcile(registry.ids);
    });
    this.#running = this.#running.catch((error: unknown) => this.#failed(error));
    this.#timer = setInterval(() => this.#tick(), limits.reconcileMs);
    this.#timer.unref();
  }

  /** Resolves when everything that was begun has settled. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Resolves when everything of an earlier server is settled. */
  settled(): Promise<void> {
    return this.#running;
  }

  /** Takes over a machine that should run. Joins an attempt under way; never rejects. */
  adopt(entry: MachineEntry): Promise<void> {
    entry.adopting ??= this.#inTurn(entry, () => entry.exclusively(() => this.#settle(entry))).finally(() => {
      entry.adopting = null;
    });
    return entry.adopting;
  }

  /** A start that a server died at is undone before the next one looks at the state. */
  #finishInTurn(entry: MachineEntry): Promise<void> {
    const work = this.#inTurn(entry, () => this.#finish(entry));
    if (entry.record.state !== "starting") return work;
    entry.adopting = work.finally(() => {
      entry.adopting = null;
    });
    return entry.adopting;
  }

  #inTurn(entry: MachineEntry, work: () => Promise<void>): Promise<void> {
    return this.#turns.run(null, () => this.#logged(entry, work));
  }

  /** What a server that died had begun. */
  async #finish(entry: MachineEntry): Promise<void> {
    const { registry, host, dataDir } = this.#context;
    if (entry.record.state === "deleting") return deleteMachine(this.#context, entry, serverItself(entry));
    await entry.exclusively(async () => {
      // Only now: this server may have started it while this waited for its turn.
      const { state, reason } = entry.record;
      if (state === "creating" || state === "starting" || state === "stopped") await host.remove(entry.id);
      if (state === "creating") {
        await removeDisk(dataDir, entry.id);
        await registry.forget(entry);
      }
      if (state === "starting") await registry.go(entry, "stopped", { reason, operationId: null });
    });
  }

  /** Of a machine that should run, or that was being stopped. */
  async #settle(entry: MachineEntry): Promise<void> {
    const { registry, host } = this.#context;
    const { state } = entry.record;
    if ((state !== "running" && state !== "stopping") || entry.live !== null) return;
    const found = await host.adopt(entry.record.plan).catch((error: unknown) => {
      entry.adoptionsFailed += 1;
      if (entry.adoptionsFailed < ATTEMPTS) throw error;
      this.#context.logger.error({ err: error, machine: entry.id }, "a machine could not be taken over");
      return null;
    });
    // It may have been deleted meanwhile.
    if (entry.record.state !== state) return;
    if (found !== null && "ended" in found) {
      registry.setLive(entry, found);
      if (state === "stopping") await finishStop(this.#context, entry);
      return;
    }
    if (state === "stopping") {
      await free(this.#context, entry);
      await registry.go(entry, "stopped", { reason: found === null ? this.#why(entry) : "stopped", operationId: null });
      return;
    }
    // Not awaited: it waits for this very work to free what is left.
    void this.#logged(entry, () =>
      recordEnd(this.#context, entry, found === null ? this.#why(entry) : reasonOf(found)),
    );
  }

  #why(entry: MachineEntry): "host_restarted" | "crashed" {
    return entry.record.bootId === this.#context.bootId ? "crashed" : "host_restarted";
  }

  #tick(): void {
    this.#running = this.#running.then(() => this.#look()).catch((error: unknown) => this.#failed(error));
  }

  #failed(error: unknown): void {
    this.#context.logger.error({ err: error }, "the comparison with the host failed");
  }

  async #look(): Promise<void> {
    if (this.#closed) return;
    const { registry, host } = this.#context;
    const before = this.#unknown;
    const held = await host.list();
    this.#unknown = new Set(held.filter((id) => registry.byId(id) === null));
    // Twice unknown: nothing that was only being made or removed at that moment.
    for (const id of this.#unknown) if (before.has(id)) await this.#removeUnknown(id);
    for (const entry of registry.all()) {
      if (needsAdoption(entry) && entry.live === null) await this.adopt(entry);
      if (isExpired(entry) && entry.removal === null) expire(this.#context, entry);
    }
  }

  async #removeUnknown(id: string): Promise<void> {
    const { host, logger, dataDir } = this.#context;
    try {
      await host.remove(id);
      await removeDisk(dataDir, id);
      logger.warn({ machine: id }, "removed a machine that no row knows");
    } catch (error) {
      logger.error({ err: error, machine: id }, "a machine that no row knows could not be removed");
    }
  }

  async #logged(entry: MachineEntry, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#context.logger.error({ err: error, machine: entry.id }, "a machine could not be brought in order");
    }
  }
}

function needsAdoption(entry: MachineEntry): boolean {
  return entry.record.state === "running" || entry.record.state === "stopping";
}
