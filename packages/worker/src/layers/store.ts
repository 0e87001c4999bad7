import { randomUUID } from "node:crypto";
import { access, mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../host/remove-tree.ts";

/** A read-only folder of installed dependencies. */
export interface Layer {
  key: string;
  /** The virtual environment on the host. */
  venv: string;
}

export type LayerProgress = (done: number, total: number) => void;

/** Fills `folder/venv`; what it throws fails every create that waits for this layer. */
export type BuildLayer = (folder: string, signal: AbortSignal, progress: LayerProgress) => Promise<void>;

export interface LayerStore {
  /** The layer of that key, built if it is missing. Creates that want the same one wait for one build. */
  ensure(key: string, build: BuildLayer, signal: AbortSignal, progress: LayerProgress): Promise<Layer>;
}

interface RunningBuild {
  done: Promise<void>;
  abort: AbortController;
  waiting: number;
  listeners: Set<LayerProgress>;
}

/** Layers under `folder`: `<key>/venv`, published whole by one rename; what a crash left half built is removed when the store is opened. */
export async function openLayerStore(folder: string): Promise<LayerStore> {
  const incoming = join(folder, "incoming");
  await removeTree(incoming);
  await mkdir(incoming, { recursive: true, mode: 0o711 });
  const running = new Map<string, RunningBuild>();

  const ensure: LayerStore["ensure"] = async (key, build, signal, progress) => {
    const layer = { key, venv: join(folder, key, "venv") };
    if (await exists(layer.venv)) return layer;
    const shared = running.get(key) ?? startBuild(key, build);
    await waitForBuild(shared, signal, progress);
    return layer;
  };

  const startBuild = (key: string, build: BuildLayer): RunningBuild => {
    const abort = new AbortController();
    const listeners = new Set<LayerProgress>();
    const work = join(incoming, randomUUID());
    const report: LayerProgress = (done, total) => {
      for (const listener of listeners) listener(done, total);
    };
    const done = (async () => {
      try {
        await mkdir(join(work, "layer"), { recursive: true, mode: 0o711 });
        await build(join(work, "layer"), abort.signal, report);
        abort.signal.throwIfAborted();
        await rename(join(work, "layer"), join(folder, key));
      } finally {
        running.delete(key);
        await removeTree(work);
      }
    })();
    done.catch(() => {});
    const shared = { done, abort, waiting: 0, listeners };
    running.set(key, shared);
    return shared;
  };

  return { ensure };
}

/** Waits for a build; the last one that gives up ends it, and then waits until nothing of it is left. */
async function waitForBuild(build: RunningBuild, signal: AbortSignal, progress: LayerProgress): Promise<void> {
  build.waiting += 1;
  build.listeners.add(progress);
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    await Promise.race([build.done, aborted.promise]);
  } catch (error) {
    if (signal.aborted && build.waiting === 1) {
      build.abort.abort(signal.reason);
      await build.done.catch(() => {});
    }
    throw error;
  } finally {
    build.waiting -= 1;
    build.listeners.delete(progress);
    signal.removeEventListener("abort", onAbort);
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
