import type { ImageOptions, ImageProgress } from "./contract.ts";

interface Running<Result> {
  done: Promise<Result>;
  abort: AbortController;
  waiting: number;
  listeners: Set<(progress: ImageProgress) => void>;
  last: ImageProgress | null;
}

/** Work that callers with the same key wait for together; it ends early when the last of them gives up. */
export class SharedWork<Result> {
  readonly #running = new Map<string, Running<Result>>();

  async run(key: string, work: (options: ImageOptions) => Promise<Result>, options: ImageOptions): Promise<Result> {
    options.signal.throwIfAborted();
    const found = this.#running.get(key);
    const shared = found === undefined || found.abort.signal.aborted ? this.#start(key, work) : found;
    if (shared.last !== null) options.onProgress?.(shared.last);
    return await wait(shared, options);
  }

  /** Ends everything, and waits until nothing of it is left. */
  async close(reason: unknown): Promise<void> {
    const all = [...this.#running.values()];
    for (const { abort } of all) abort.abort(reason);
    await Promise.allSettled(all.map(({ done }) => done));
  }

  #start(key: string, work: (options: ImageOptions) => Promise<Result>): Running<Result> {
    const abort = new AbortController();
    const shared: Running<Result> = {
      ...{ abort, waiting: 0, listeners: new Set(), last: null },
      done: Promise.resolve().then(() =>
        work({
          signal: abort.signal,
          onProgress: (progress) => {
            shared.last = progress;
            for (const listener of shared.listeners) listener(progress);
          },
        }),
      ),
    };
    const forget = (): void => {
      if (this.#running.get(key) === shared) this.#running.delete(key);
    };
    shared.done.then(forget, forget);
    this.#running.set(key, shared);
    return shared;
  }
}

async function wait<Result>(shared: Running<Result>, { signal, onProgress }: ImageOptions): Promise<Result> {
  shared.waiting += 1;
  if (onProgress !== undefined) shared.listeners.add(onProgress);
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([shared.done, aborted.promise]);
  } catch (error) {
    if (signal.aborted && shared.waiting === 1) {
      shared.abort.abort(signal.reason);
      await shared.done.catch(() => {});
    }
    throw error;
  } finally {
    shared.waiting -= 1;
    if (onProgress !== undefined) shared.listeners.delete(onProgress);
    signal.removeEventListener("abort", onAbort);
  }
}

/** Changes of what names stand for, one after another. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(work, work);
    this.#last = result.catch(() => {});
    return result;
  }
}
