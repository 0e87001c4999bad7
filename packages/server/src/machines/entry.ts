import type { LiveMachine } from "@sandpool/worker";
import type { MachineRecord } from "./record.ts";

/** One machine in the server's memory: its record, the running machine, and what is being done with it. */
export class MachineEntry {
  record: MachineRecord;
  /** Null where it does not run, or is not taken over yet. */
  live: LiveMachine | null = null;
  /** Under way after a restart; calls wait for it. Never rejects. */
  adopting: Promise<void> | null = null;
  /** Failed attempts to take it over. */
  adoptionsFailed = 0;
  /** The removal under way; a second delete joins it. */
  removal: Promise<void> | null = null;
  /** The stop or start under way, which the same verb joins. */
  change: { verb: "stop" | "start"; done: Promise<void> } | null = null;
  /** Ends the creation or start under way. */
  abort = new AbortController();
  /** Aborts when what `find` gave is no longer so. */
  end = new AbortController();
  expiryTimer: NodeJS.Timeout | undefined;
  saveTimer: NodeJS.Timeout | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(record: MachineRecord) {
    this.record = record;
  }

  get id(): string {
    return this.record.id;
  }

  /** The same verb under way; null if none. */
  underWay(verb: "stop" | "start"): Promise<void> | null {
    return this.change?.verb === verb ? this.change.done : null;
  }

  /** Runs the work when what was begun before on this machine has settled. */
  exclusively<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(work, work);
    this.#last = result.catch(() => {});
    return result;
  }

  /** Resolves when nothing is being done with it. */
  async settled(): Promise<void> {
    let last: unknown;
    while (last !== this.#last) {
      last = this.#last;
      await last;
    }
  }

  clearTimers(): void {
    clearTimeout(this.expiryTimer);
    clearTimeout(this.saveTimer);
  }
}
