import { collectToCap, type StorageContext } from "./collect.ts";

/** Keeps the data folder below its cap, from the moment it is opened until it is closed. */
export class StorageKeeper {
  readonly #context: StorageContext;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();

  constructor(context: StorageContext) {
    this.#context = context;
    this.#timer = setInterval(() => {
      this.#running = this.#running.then(() => this.#look());
    }, context.limits.reconcileMs);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    const { logger } = this.#context;
    try {
      const { removed, bytes } = await collectToCap(this.#context);
      if (removed.length > 0) logger.info({ removed, bytes }, "removed what was least recently used");
    } catch (error) {
      logger.error({ err: error }, "the storage could not be looked through");
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }
}
