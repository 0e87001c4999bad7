import { type BranchWay, makeId, type SavedState } from "@sandpool/protocol";
import { fail } from "../../fail.ts";
import { statesMax } from "../plan.ts";
import { rowError, type ShardFailure, unknownFailure } from "../shards/failure.ts";
import type { Shard } from "../shards/shard.ts";
import type { RunningShard } from "../shards/start.ts";

/** What an agent says of a state that it keeps. */
export interface KeptState {
  slot: number;
  row: number;
  episode: number;
  step: number;
  seed: number | null;
  pending: boolean;
  way: BranchWay;
}

/** A saved state and where it lies. */
export interface StateRecord extends KeptState {
  id: string;
  createdAt: Date;
  shard: Shard;
  /** The sandbox that has it: with it the state ends. */
  running: RunningShard;
  /** Why it is lost, as far as that is known. */
  error: Record<string, unknown> | null;
}

/** The saved states of one pool, and which slots of its shards are taken. */
export class States {
  /** Settles with the branching batch that runs: whoever looks at states or drops them waits for it. */
  running: Promise<unknown> | null = null;
  readonly #records = new Map<string, StateRecord>();
  /** For each shard its taken slots, and by the states of which sandbox. */
  readonly #slots = new Map<Shard, Map<number, RunningShard>>();

  /** Resolves when no branching batch runs. */
  async quiet(): Promise<void> {
    while (this.running !== null) await this.running;
  }

  get all(): StateRecord[] {
    return [...this.#records.values()];
  }

  /** Takes free slots for states to come. @throws `quota` */
  take(shard: Shard, running: RunningShard, count: number): number[] {
    const held = this.all.filter((record) => record.shard === shard);
    if (held.length + count > statesMax) throw overLimit(shard, held, count);
    const slots = this.#slotsOf(shard);
    const free: number[] = [];
    for (let slot = 0; slot < statesMax && free.length < count; slot += 1) {
      if (slots.get(slot) !== running) free.push(slot);
    }
    if (free.length < count) throw overLimit(shard, held, count);
    for (const slot of free) slots.set(slot, running);
    return free;
  }

  /** Gives slots back whose states are gone, or never came to be. */
  free(shard: Shard, running: RunningShard, freed: readonly number[]): void {
    const slots = this.#slotsOf(shard);
    for (const slot of freed) if (slots.get(slot) === running) slots.delete(slot);
  }

  add(shard: Shard, running: RunningShard, kept: KeptState): StateRecord {
    const record = { ...kept, id: makeId("st"), createdAt: new Date(), shard, running, error: null };
    this.#records.set(record.id, record);
    return record;
  }

  /** Puts the newest states, which several shards told in any order, into the order of their rows. */
  order(newest: readonly StateRecord[]): void {
    for (const record of newest) {
      this.#records.delete(record.id);
      this.#records.set(record.id, record);
    }
  }

  /** Forgets states; the ids that are none are left out. */
  remove(ids: readonly string[]): StateRecord[] {
    return ids.flatMap((id) => {
      const record = this.#records.get(id);
      this.#records.delete(id);
      return record === undefined ? [] : [record];
    });
  }

  /** The states of these ids, in order. @throws `state_not_found`, `state_lost` */
  find(ids: readonly string[]): StateRecord[] {
    const unknown = [...new Set(ids.filter((id) => !this.#records.has(id)))];
    if (unknown.length > 0) throw notFound(unknown);
    const found = ids.map((id) => this.#records.get(id) as StateRecord);
    const lost = [...new Set(found.filter((record) => lossOf(record) !== null))];
    if (lost.length > 0) throw statesLost(lost);
    return found;
  }

  /** An event of a shard's agent. */
  receive(running: RunningShard, head: Readonly<Record<string, unknown>>): void {
    if (head.event !== "state_lost") return;
    const record = this.all.find((held) => held.running === running && held.slot === head.slot);
    if (record !== undefined) record.error ??= asError(head.error);
  }

  /** A sandbox ended, and its states with it. */
  ended(running: RunningShard, failure: ShardFailure): void {
    for (const record of this.#records.values()) {
      if (record.running === running) record.error ??= rowError(failure, "idle", false);
    }
  }

  #slotsOf(shard: Shard): Map<number, RunningShard> {
    let slots = this.#slots.get(shard);
    if (slots === undefined) {
      slots = new Map();
      this.#slots.set(shard, slots);
    }
    return slots;
  }
}

/** Why a state is lost, in the form of a row's error; null while it can be restored. */
export function lossOf(record: StateRecord): Record<string, unknown> | null {
  if (record.error !== null) return record.error;
  if (record.shard.running === record.running) return null;
  return rowError(record.shard.failure ?? unknownFailure, "idle", false);
}

/** A state as the API shows it. */
export function describeState(record: StateRecord): SavedState {
  const { id, row, episode, step, seed, createdAt, way, pending } = record;
  return { id, row, episode, step, seed, created_at: createdAt.toISOString(), way, pending, lost: lossOf(record) };
}

/** @param lost states whose loss is known */
export function statesLost(lost: readonly StateRecord[]): Error {
  const [first] = lost as [StateRecord];
  const error = lossOf(first) ?? rowError(unknownFailure, "idle", false);
  const others = lost.length > 1 ? ` and ${lost.length - 1} more are lost` : " is lost";
  return fail("state_lost", `The state ${first.id} of row ${first.row}${others}: ${String(error.message)}`, {
    hint: "Nothing was changed. Drop it; save again, or play the way to it again from a reset.",
    details: { states: lost.map(({ id }) => id), error },
  });
}

function notFound(ids: readonly string[]): Error {
  const shown = ids.slice(0, 3).map((id) => JSON.stringify(id));
  const more = ids.length > 3 ? ` and ${ids.length - 3} more` : "";
  return fail("state_not_found", `This pool has no saved state ${shown.join(", ")}${more}.`, {
    hint: "Nothing was changed. Only states of this very pool can be restored, until they are dropped.",
    details: { states: ids },
  });
}

function overLimit(shard: Shard, held: readonly StateRecord[], asked: number): Error {
  const { first, count } = shard.range;
  const lost = held.filter((record) => lossOf(record) !== null).length;
  const also = lost === 0 ? "" : `, ${lost} of them lost`;
  return fail(
    "quota",
    `The sandbox of rows ${first} to ${first + count - 1} has ${held.length} saved states${also}; with ${asked} more it would pass its limit of ${statesMax}. None was saved.`,
    {
      hint: "Drop states you no longer need; the lost ones count until then.",
      details: { held: held.length, lost, asked, limit: statesMax },
    },
  );
}

function asError(error: unknown): Record<string, unknown> {
  const given = typeof error === "object" && error !== null ? (error as Record<string, unknown>) : {};
  return { ...rowError(unknownFailure, "idle", false), message: "The state ended by itself.", ...given };
}
