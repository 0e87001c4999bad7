import { readFileSync } from "node:fs";
import type { ExecOutcome } from "../contract.ts";

const REMEMBERED = 1024;

/**
 * Programs that the kernel killed for memory, faster than the agent could look: its count of them is on the host, where no machine without
 * a kernel of its own can see it.
 */
export class KernelKills {
  /** The machine's memory group; null where there is none. */
  readonly #group: string | null;
  readonly #first: number;
  /** The count when the exec was started, or how it was judged. */
  readonly #known = new Map<string, number | boolean>();

  constructor(group: string | null) {
    this.#group = group;
    this.#first = this.#count();
  }

  /** An exec is about to start. */
  begin(id: string): void {
    if (this.#group !== null && !this.#known.has(id)) this.#remember(id, this.#count());
  }

  /** Somebody of ours kills it. */
  excuse(id: string): void {
    if (this.#group === null) return;
    const known = this.#known.get(id) ?? this.#first;
    // The kernel may have been there before.
    if (typeof known === "number" && this.#count() === known) this.#remember(id, false);
  }

  /** The outcome, with what the kernel did. */
  judge(outcome: ExecOutcome): ExecOutcome {
    const { id, signal, timedOut, oomKilled } = outcome;
    if (this.#group === null || signal !== "KILL" || timedOut || oomKilled) return outcome;
    const known = this.#known.get(id) ?? this.#first;
    const isKernels = typeof known === "boolean" ? known : this.#count() > known;
    this.#remember(id, isKernels);
    return isKernels ? { ...outcome, oomKilled: true } : outcome;
  }

  #remember(id: string, value: number | boolean): void {
    this.#known.delete(id);
    this.#known.set(id, value);
    const oldest = this.#known.keys().next().value;
    if (this.#known.size > REMEMBERED && oldest !== undefined) this.#known.delete(oldest);
  }

  /** Version 2 of cgroups, then version 1. The file is in memory: reading it takes microseconds. */
  #count(): number {
    for (const name of ["memory.events", "memory.oom_control"]) {
      try {
        const text = readFileSync(`${this.#group}/${name}`, "latin1");
        return Number(text.match(/^oom_kill (\d+)$/m)?.[1] ?? 0);
      } catch {
        // The other version.
      }
    }
    return 0;
  }
}
