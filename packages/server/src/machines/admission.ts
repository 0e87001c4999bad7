import { readFile, statfs } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { formatSize, SandpoolError } from "@sandpool/protocol";
import type { ServerLimits } from "../options.ts";
import { Turns } from "./turns.ts";

/** How many machines start at once; the others wait their turn, up to a bound. */
export class StartQueue {
  readonly #limit: number;
  readonly #turns: Turns;
  #reserved = 0;
  /** How long one took lately; what `Retry-After` is made from. */
  #lastMs = 1_000;

  constructor(limits: ServerLimits) {
    this.#limit = limits.machineQueue;
    this.#turns = new Turns(limits.machineStartsAtOnce ?? Math.max(2, availableParallelism()));
  }

  /** A place in the queue; to be given back. @throws `quota` with `retry_after_s` where too many wait already */
  reserve(): () => void {
    const waiting = this.#reserved - this.#turns.atOnce;
    if (waiting >= this.#limit) throw this.#full(waiting);
    this.#reserved += 1;
    let held = true;
    return () => {
      if (held) this.#reserved -= 1;
      held = false;
    };
  }

  /** Runs the work when it is its turn. An abort while it waits rejects with the signal's reason. */
  run<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    return this.#turns.run(signal, async () => {
      const startedMs = performance.now();
      try {
        return await work();
      } finally {
        this.#lastMs = performance.now() - startedMs;
      }
    });
  }

  #full(waiting: number): SandpoolError {
    const seconds = Math.ceil((this.#lastMs * (waiting + 1)) / this.#turns.atOnce / 1000);
    const message = `${waiting} machines wait to be started already, at most ${this.#limit} may`;
    return new SandpoolError("quota", message, {
      hint: `try again in ${seconds} s`,
      details: { waiting, limit: this.#limit, retry_after_s: seconds },
    });
  }
}

/** Bytes of the file system that holds the data folder. */
export async function diskOf(dataDir: string): Promise<{ totalBytes: number; freeBytes: number }> {
  const { blocks, bavail, bsize } = await statfs(dataDir);
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
}

/** New work is refused while the host is short of disk or memory, before anything of it is made. @throws `disk_full`, `memory_short` */
export async function requireRoom(dataDir: string, limits: ServerLimits): Promise<void> {
  const { freeBytes } = await diskOf(dataDir);
  if (freeBytes < limits.diskLowWaterBytes) {
    throw new SandpoolError(
      "disk_full",
      `the disk of the data folder has ${formatSize(freeBytes)} free; new work needs ${formatSize(limits.diskLowWaterBytes)}`,
      {
        hint: "`sandpool gc` removes what nothing uses; `sandpool df` shows what takes the space",
        details: { free_bytes: freeBytes, low_water_bytes: limits.diskLowWaterBytes },
      },
    );
  }
  const availableBytes = await availableMemory();
  if (availableBytes !== null && availableBytes < limits.memoryLowWaterBytes) {
    throw new SandpoolError(
      "memory_short",
      `the host has ${formatSize(availableBytes)} of memory available; new work needs ${formatSize(limits.memoryLowWaterBytes)}`,
      {
        hint: "stop or delete machines, or close pools",
        details: { available_bytes: availableBytes, low_water_bytes: limits.memoryLowWaterBytes },
      },
    );
  }
}

/** The kernel's estimate of what can be had without swapping; null where it gives none. */
async function availableMemory(): Promise<number | null> {
  const text = await readFile("/proc/meminfo", "latin1").catch(() => "");
  const kibibytes = /^MemAvailable:\s+(\d+) kB/m.exec(text)?.[1];
  return kibibytes === undefined ? null : Number(kibibytes) * 1024;
}
