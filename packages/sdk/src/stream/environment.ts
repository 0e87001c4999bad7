import { ArgumentError } from "../errors.ts";
import type { ActionSpace } from "../pool/actionSpace.ts";
import type { Action } from "../pool/actions.ts";
import type { RowError, RowReporter } from "../pool/rowErrors.ts";
import { refuseUnknown } from "../pool/selection.ts";
import type { Value, ValueObject } from "../values/types.ts";
import { type Entry, makeResets, makeSteps } from "./entries.ts";
import type { RowOutcome } from "./rowRequests.ts";
import type { AsynchronousStepping } from "./stepping.ts";

/** What a reset of one environment returns. */
export interface RowReset<Observation = Value> {
  /** An `NdArray` of one row's shape, or a dict or `Tuple` of them; in a list pool the value, null if the reset failed. */
  observation: Observation;
  info: ValueObject;
  /** Why the row failed, or null. */
  error: RowError | null;
}

/** What a step of one environment returns. */
export interface RowStep<Observation = Value> extends RowReset<Observation> {
  reward: number;
  /** `terminated || truncated`; a failed row is done. */
  done: boolean;
  terminated: boolean;
  truncated: boolean;
}

/** What the environments of a pool share. */
export interface EnvironmentContext {
  stepping: AsynchronousStepping;
  n: number;
  actionSpace: ActionSpace | null;
  reporter: RowReporter;
  onReset: (row: number, info: ValueObject) => void;
}

/**
 * One free row of a pool, checked out with `pool.env()` until it is released.
 *
 * @example
 * await using env = await pool.env();
 * let { observation } = await env.reset({ options: { task } });
 * for (let done = false; !done; ) ({ observation, done } = await env.step(await act(observation)));
 */
export class Environment<Observation = Value> implements AsyncDisposable {
  /** Which row of the pool it is. */
  readonly row: number;
  readonly #context: EnvironmentContext;
  #wasReset = false;
  #isReleased = false;

  /** Made by `pool.env()`. */
  constructor(row: number, context: EnvironmentContext) {
    this.row = row;
    this.#context = context;
  }

  /**
   * Resets the row: with exactly this `seed`, or by the pool's rule. An aborted `signal` gives up the wait; the row goes on, and
   * the next call first lets it end. Throws `RowsFailedError` with `errors: "raise"`, `pool_busy` while another call is under way.
   */
  async reset(
    choice: { seed?: number | null; options?: ValueObject | null; hard?: boolean; signal?: AbortSignal } = {},
  ): Promise<RowReset<Observation>> {
    refuseUnknown("reset", choice, ["seed", "options", "hard", "signal"]);
    const { seed = null, options = null, hard = false, signal } = choice;
    const entry = makeResets({ where: [this.row], seed: [seed], options: [options], hard }, this.#context.n);
    this.#refuseReleased();
    const outcome = await this.#ask(entry, signal);
    this.#wasReset = true;
    this.#context.onReset(this.row, outcome.info);
    const { observation, info, error } = outcome;
    return this.#report({ observation, info, error });
  }

  /** Steps the row with one action; otherwise as `reset`. Throws `ArgumentError` before the first reset of this checkout. */
  async step(action: Action, options: { signal?: AbortSignal } = {}): Promise<RowStep<Observation>> {
    refuseUnknown("step", options, ["signal"]);
    this.#refuseReleased();
    if (!this.#wasReset) {
      throw new ArgumentError(`step was called on row ${this.row} before its reset; its episode is somebody else's.`, {
        hint: "await env.reset() first.",
      });
    }
    const entry = makeSteps([action], [this.row], this.#context.n, this.#context.actionSpace);
    const { op: _, ...outcome }: RowOutcome = await this.#ask(entry, options.signal);
    return this.#report({ ...outcome, done: outcome.terminated || outcome.truncated });
  }

  /** Gives the row back to the pool, at once or when what is under way has ended. Releasing twice is harmless. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#context.stepping.giveBack(this.row);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.release();
  }

  async #ask(entry: Entry, signal: AbortSignal | undefined): Promise<RowOutcome> {
    const { stepping } = this.#context;
    signal?.throwIfAborted();
    const draining = stepping.drain(this.row, signal);
    if (draining !== null) {
      await draining;
      this.#refuseReleased();
    }
    return stepping.ask(entry, signal);
  }

  #report<Result extends RowReset>(result: Result): Result & { observation: Observation } {
    const errors = new Map(result.error === null ? [] : [[this.row, result.error]]);
    return this.#context.reporter.report(result, errors) as Result & { observation: Observation };
  }

  #refuseReleased(): void {
    if (!this.#isReleased) return;
    throw new ArgumentError(
      `Row ${this.row} was used after its release; expected an environment that is checked out.`,
      {
        hint: "Check another one out with pool.env().",
      },
    );
  }
}
