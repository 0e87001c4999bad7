import type { Value } from "../values/types.ts";
import { BatchedPool } from "./batched.ts";
import type { BatchReply } from "./batchReply.ts";
import { forkPairs, type Pairs, type Reseed, readReseed, restorePairs } from "./pairs.ts";
import { jsonRequest } from "./requests.ts";
import { fullInfos, type ResetResult } from "./results.ts";
import { emitSandpoolWarning } from "./rowErrors.ts";
import { checkStates, readSaveReply, readStates, type SavedState } from "./savedState.ts";
import { readWhereOption, refuseUnknown, type Where, type WhereOption } from "./selection.ts";

/** How a fork or a restore copies. */
export interface ForkOptions {
  /** New random streams for the copies. Default: exact copies. */
  reseed?: Reseed;
  signal?: AbortSignal;
}

/** What a restore may be asked beside its states. */
export interface RestoreOptions extends ForkOptions {
  /** The targets in the order of the states, a mask's ascending. Default: the row that each state came from. */
  where?: Where | null;
}

/** What `fork` and `restore` return: always n rows; rows that are no target keep their last observation and have an empty info. */
export interface ForkResult<Observations = Value> extends ResetResult<Observations> {
  /** By target what was reseeded, such as `["random", "np_random"]`; only targets for which that was asked. */
  reseeded: ReadonlyMap<number, readonly string[]>;
}

/** A pool's branching: live copies of rows, and rows kept to go back to. */
export class BranchedPool<Observations = Value> extends BatchedPool<Observations> {
  /**
   * Makes rows live copies of others at this instant: same memory, same files, same next step. One source to one or many targets, or
   * source k to target k; a row may be both. All of it happens, or none.
   *
   * Throws `ForkUnsupportedError`, which says what stands in the way of which row (nothing has changed), `ArgumentError`, and as
   * `reset` does.
   *
   * @example
   * await pool.fork(0, [1, 2, 3], { reseed: true });
   */
  async fork(
    source: number | readonly number[],
    target: number | Where,
    options: ForkOptions = {},
  ): Promise<ForkResult<Observations>> {
    refuseUnknown("fork", options, ["reseed", "signal"]);
    this.assertOpen();
    return this.copy("fork", forkPairs(source, target, this.n), options);
  }

  /**
   * Keeps a copy of rows (all by default) as they are now: one state for each, in the order of `where` (a mask's ascending), in which
   * `restore` takes its targets.
   *
   * Throws `ForkUnsupportedError`, `quota` beyond the limit of states (then none was kept), `ArgumentError`, and as `reset` does.
   */
  async save(where?: WhereOption): Promise<SavedState[]> {
    const options = readWhereOption("save", where);
    const selection = this.select(options.where);
    if (selection.count === 0) return [];
    return this.batches.run({
      operation: "save",
      encode: jsonRequest({ where: selection.rows }),
      readJson: (reply) => readSaveReply(reply, this.id, selection),
      timeoutMs: this.timeouts.branchMs,
      signal: options.signal,
    });
  }

  /**
   * Makes rows live copies of saved states, any number of times: state k to target k, one state to all targets, or without `where`
   * each state to the row it came from.
   *
   * Throws `NotFoundError` (`state_not_found`) for a state that was dropped, `StateLostError`, `ForkUnsupportedError`, `ArgumentError`,
   * and as `reset` does. All of it happens, or none.
   *
   * @example
   * const [state] = await pool.save({ where: [0] });
   * await pool.restore(state, { where: [0, 1, 2], reseed: 7 });
   */
  async restore(
    states: SavedState | readonly SavedState[],
    options: RestoreOptions = {},
  ): Promise<ForkResult<Observations>> {
    refuseUnknown("restore", options, ["where", "reseed", "signal"]);
    this.assertOpen();
    const checked = checkStates("restore", states, this.id);
    return this.copy("restore", restorePairs(checked, options.where ?? null, this.n), options);
  }

  /** Ends saved states for good, all without an argument; gives the ids of those that were there. */
  async drop(states?: SavedState | readonly SavedState[] | null): Promise<string[]> {
    this.assertOpen();
    const ids =
      states === undefined || states === null ? null : checkStates("drop", states, this.id).map(({ id }) => id);
    if (ids?.length === 0) return [];
    const body = JSON.stringify({ states: ids });
    const reply = await this.server.json("DELETE", `${this.path}/states`, { body, retries: 3 });
    return (reply as { dropped: string[] }).dropped;
  }

  /** The pool's saved states, oldest first; with `memory` also what each has. */
  async states(options: { memory?: boolean } = {}): Promise<SavedState[]> {
    refuseUnknown("states", options, ["memory"]);
    this.assertOpen();
    const path = `${this.path}/states?memory=${options.memory === true}`;
    return readStates(await this.server.json("GET", path, { retries: 3 }), this.id);
  }

  private async copy(
    operation: "fork" | "restore",
    { pairs, selection }: Pairs<number | string>,
    options: ForkOptions,
  ): Promise<ForkResult<Observations>> {
    const reseed = readReseed(options.reseed, pairs.length);
    if (pairs.length === 0) {
      const observations = this.observations.last() as Observations;
      return this.told({ observations, infos: fullInfos(null, this.n), errors: new Map(), reseeded: new Map() });
    }
    const result = await this.batches.run({
      operation,
      encode: jsonRequest({ pairs, reseed }),
      absorb: (reply) => ({
        ...this.absorbReset(reply, selection),
        reseeded: this.readReseeded(reply, selection.rows),
      }),
      timeoutMs: this.timeouts.branchMs,
      signal: options.signal,
    });
    return this.told(result);
  }

  private readReseeded(reply: BatchReply, targets: readonly number[] | null): Map<number, readonly string[]> {
    const { reseeded, warnings } = reply.members as { reseeded?: (string[] | null)[]; warnings?: string[] };
    if (this.reporter.warns) for (const warning of warnings ?? []) emitSandpoolWarning(warning);
    return new Map(
      (reseeded ?? []).flatMap((list, place) => (list === null ? [] : [[targets?.[place] ?? place, list] as const])),
    );
  }
}
