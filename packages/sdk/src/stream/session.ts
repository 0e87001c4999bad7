import { randomBytes } from "node:crypto";
import { SandpoolError } from "../errors.ts";
import type { Observations } from "../pool/observations.ts";
import type { PoolTiming } from "../pool/timing.ts";
import type { Entry } from "./entries.ts";
import { type Outgoing, packEntries } from "./pack.ts";
import { type Part, readResult } from "./results.ts";

interface Kept {
  message: Outgoing;
  packedAtMs: number;
  /** Rows that are not back. */
  left: number;
}

/**
 * The client's side of a stream's session: its numbers, the messages kept until their rows are back, and which rows are under
 * way. Pure: bytes in, bytes out.
 */
export class Session {
  readonly #n: number;
  readonly #observations: Observations;
  readonly #timing: PoolTiming;
  #name = "";
  /** The number of the last result that came. */
  #received = 0;
  #lastNumber = 0;
  #accepted = 0;
  #waiting: Entry[] = [];
  /** Entries that wait to be tried again, each in a message of its own. */
  #apart: Entry[] = [];
  readonly #kept = new Map<number, Kept>();
  /** For each row the number of its message. */
  readonly #underway = new Map<number, number>();
  #lastSignMs = performance.now();

  constructor(n: number, observations: Observations, timing: PoolTiming) {
    this.#n = n;
    this.#observations = observations;
    this.#timing = timing;
    this.renew();
  }

  get name(): string {
    return this.#name;
  }

  get received(): number {
    return this.#received;
  }

  /** When the pool was last heard, or written to, by `performance.now()`. */
  get lastSignMs(): number {
    return this.#lastSignMs;
  }

  /** Whether an entry waits or a message lacks results. */
  get isBusy(): boolean {
    return this.isWaiting || this.#kept.size > 0;
  }

  /** Whether an entry waits for the next `pack`. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0 || this.#apart.length > 0;
  }

  /** Whether nothing of this session is missing, and it is no new one: then it may be given up for another. */
  get isReplaceable(): boolean {
    return this.#kept.size === 0 && this.#lastNumber > 0;
  }

  /** Begins a new session: for the first connection, and when the old one is gone and nothing of it was out. */
  renew(): void {
    this.#name = randomBytes(8).toString("hex");
    this.#received = 0;
    this.#lastNumber = 0;
    this.#accepted = 0;
    this.#kept.clear();
    this.#underway.clear();
  }

  /** Lets an entry, whose rows are not under way, wait for the next `pack`. */
  put(entry: Entry): void {
    if (!this.isBusy) this.#lastSignMs = performance.now();
    this.#waiting.push(entry);
  }

  /** Turns the entries that wait into numbered messages. */
  pack(): Outgoing[] {
    const messages = packEntries(this.#waiting, this.#lastNumber + 1, this.#received);
    for (const entry of this.#apart) {
      messages.push(...packEntries([entry], this.#lastNumber + 1 + messages.length, this.#received));
    }
    this.#waiting = [];
    this.#apart = [];
    const packedAtMs = performance.now();
    for (const message of messages) {
      this.#kept.set(message.number, { message, packedAtMs, left: message.rows.length });
      for (const row of message.rows) this.#underway.set(row, message.number);
    }
    this.#lastNumber += messages.length;
    return messages;
  }

  /** Begins on a new connection: the messages that the pool has not accepted. Throws when its numbers are not this session's. */
  resume(accepted: number, nextResult: number): Outgoing[] {
    if (nextResult !== this.#received + 1 || accepted < this.#accepted || accepted > this.#lastNumber) {
      throw violation(
        `opened with accepted ${accepted} and next_result ${nextResult}`,
        `${this.#accepted} to ${this.#lastNumber} and ${this.#received + 1}`,
      );
    }
    this.#lastSignMs = performance.now();
    return [...this.#kept.values()].map(({ message }) => message).filter(({ number }) => number > accepted);
  }

  /** Takes a message of results in; null if it came before. */
  feed(data: Buffer): Part | null {
    this.#lastSignMs = performance.now();
    const result = readResult(data, this.#n, this.#observations, (number) => number <= this.#received);
    if (result === null) return null;
    const { number, part, timing } = result;
    if (number !== this.#received + 1) throw violation(`sent the result ${number}`, `${this.#received + 1}`);
    const packedAtMs = part.rows.map((row) => this.#bringBack(row));
    this.#received = number;
    this.#timing.record(timing, this.#lastSignMs - Math.min(this.#lastSignMs, ...packedAtMs));
    return part;
  }

  /**
   * Takes in that the pool refused a message: its rows, which are out no longer. None, if that is known already, or if the message
   * carried several entries: each is then tried alone, for one that the pool does not like must not cost the others anything.
   */
  refuse(number: number): readonly number[] {
    this.#lastSignMs = performance.now();
    const kept = this.#kept.get(number);
    if (kept === undefined) return [];
    this.#kept.delete(number);
    this.#accepted = Math.max(this.#accepted, number);
    const { entries, rows } = kept.message;
    for (const row of rows) this.#underway.delete(row);
    if (entries.length === 1) return rows;
    this.#apart.push(...entries);
    return [];
  }

  /** The stream has failed for good: nothing is under way any longer. */
  forget(): void {
    this.#waiting = [];
    this.#apart = [];
    this.renew();
  }

  /** Takes one row of a kept message as done: when that was packed. */
  #bringBack(row: number): number {
    const number = this.#underway.get(row) ?? 0;
    const kept = this.#kept.get(number);
    if (kept === undefined) throw violation(`brought a result for row ${row}`, "only rows that are out");
    this.#underway.delete(row);
    kept.left -= 1;
    if (kept.left === 0) this.#kept.delete(number);
    this.#accepted = Math.max(this.#accepted, number);
    return kept.packedAtMs;
  }
}

function violation(received: string, expected: string): SandpoolError {
  return new SandpoolError("protocol_violation", `The stream ${received}; expected ${expected}.`, {
    hint: "The server does not know this session any more; reset the pool's rows.",
  });
}
