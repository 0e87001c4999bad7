import { diskOf } from "./admission.ts";
import { type MachineContext, serverItself } from "./context.ts";
import { deleteMachine } from "./delete.ts";
import { saveDisk } from "./disk.ts";
import type { MachineEntry } from "./entry.ts";
import { expiryOf } from "./record.ts";

/** What a timer of Node can hold. */
const LONGEST_MS = 2 ** 31 - 1;

/** Deletes the machine when its lifetime or its lease is over. To be called again whenever one of them changed. */
export function armExpiry(context: MachineContext, entry: MachineEntry): void {
  clearTimeout(entry.expiryTimer);
  const expiry = expiryOf(entry.record);
  if (expiry === null) return;
  const waitMs = Math.min(Math.max(expiry.at - Date.now(), 0), LONGEST_MS);
  entry.expiryTimer = setTimeout(() => expire(context, entry), waitMs);
}

/** Whether it should be gone. */
export function isExpired(entry: MachineEntry): boolean {
  return (expiryOf(entry.record)?.at ?? Infinity) <= Date.now();
}

/** A failure is logged, and tried again by the next comparison with the host. */
export function expire(context: MachineContext, entry: MachineEntry): void {
  if (!isExpired(entry)) {
    armExpiry(context, entry);
    return;
  }
  const by = expiryOf(entry.record)?.by;
  context.logger.info({ machine: entry.id, name: entry.record.name, by }, "a machine's time is over");
  deleteMachine(context, entry, serverItself(entry)).catch((error: unknown) => {
    context.logger.error({ err: error, machine: entry.id }, "a machine whose time is over could not be deleted");
  });
}

/** Saves disks one after another, each machine's own at its interval: its programs stand still meanwhile. */
export class DiskSaver {
  readonly #context: MachineContext;
  #last: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(context: MachineContext) {
    this.#context = context;
  }

  /** To be called whenever the machine begins to run. */
  arm(entry: MachineEntry): void {
    clearTimeout(entry.saveTimer);
    const { diskSaveIntervalMs } = this.#context.limits;
    if (diskSaveIntervalMs === 0 || this.#closed) return;
    entry.saveTimer = setTimeout(() => {
      this.#last = this.#last.then(() => this.#save(entry)).finally(() => this.arm(entry));
    }, diskSaveIntervalMs);
  }

  async #save(entry: MachineEntry): Promise<void> {
    const { logger } = this.#context;
    try {
      await entry.exclusively(async () => {
        if (this.#closed || entry.record.state !== "running" || entry.live === null) return;
        const { freeBytes } = await diskOf(this.#context.dataDir);
        if (freeBytes < this.#context.limits.diskLowWaterBytes) {
          logger.warn({ machine: entry.id, freeBytes }, "a disk was not saved: too little space is free");
          return;
        }
        const { bytes } = await saveDisk(this.#context, entry);
        logger.debug({ machine: entry.id, bytes }, "disk saved");
      });
    } catch (error) {
      if (entry.record.state === "running") logger.warn({ err: error, machine: entry.id }, "a disk was not saved");
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#last;
  }
}
