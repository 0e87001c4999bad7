import { ArgumentError } from "../errors.ts";
import type { ActionSpace } from "../pool/actionSpace.ts";
import type { Action } from "../pool/actions.ts";
import type { CallOptions } from "../pool/batched.ts";
import type { CallResult } from "../pool/results.ts";
import { type RowError, type RowReporter, RowsFailedError } from "../pool/rowErrors.ts";
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
  /** Calls a method of some rows as a batch. */
  call: (name: string, options: CallOptions) => Promise<CallResult>;
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
  readonly index: number;
  readonly #context: EnvironmentContext;
  #wasReset = false;
  #isReleased = false;

  /** Made by `pool.env()`. */
  constructor(index: number, context: EnvironmentContext) {
    this.index = index;
    this.#context = context;
  }

  /**
   * Resets the row: with exactly this `seed`, or by the pool's rule; a row that was lost, hard. An aborted `signal` gives up the
   * wait; the row goes on, its result is for nobody, and the next reset waits for it. Throws `RowsFailedError` with
   * `errors: "raise"`, and `pool_busy` while another call of this environment is under way.
   */
  async reset(
    choice: { seed?: number | null; options?: ValueObject | null; hard?: boolean; signal?: AbortSignal } = {},
  ): Promise<RowReset<Observation>> {
    refuseUnknown("reset", choice, ["seed", "options", "hard", "signal"]);
    const { seed = null, options = null, hard = this.#context.stepping.isLost(this.index), signal } = choice;
    const entry = makeResets({ where: [this.index], seed: [seed], options: [options], hard }, this.#context.n);
    const outcome = await this.#ask(entry, signal);
    this.#context.onReset(this.index, outcome.info);
    const { observation, info, error } = outcome;
    return this.#report({ observation, info, error });
  }

  /** Steps the row with one action; otherwise as `reset`. Throws `ArgumentError` before the first reset, and after a call that was given up. */
  async step(action: Action, options: { signal?: AbortSignal } = {}): Promise<RowStep<Observation>> {
    refuseUnknown("step", options, ["signal"]);
    this.#refuseReleased();
    this.#context.stepping.refuseBusy(this.index);
    if (!this.#wasReset) {
      throw new ArgumentError(
        `step was called on row ${this.index} before a reset that came to its end; its episode is somebody else's.`,
        { hint: "await env.reset() first, also after a call that was aborted." },
      );
    }
    const entry = makeSteps([action], [this.index], this.#context.n, this.#context.actionSpace);
    const { op: _, ...outcome }: RowOutcome = await this.#ask(entry, options.signal);
    return this.#report({ ...outcome, done: outcome.terminated || outcome.truncated });
  }

  /**
   * Calls a method of the environment and gives its result. A call is a batch of the whole pool: it waits until all that is out is
   * back, and holds back what is asked meanwhile; for what each step needs, use infos. Throws `RowsFailedError` when it fails.
   */
  async call(name: string, options: Omit<CallOptions, "where"> = {}): Promise<Value> {
    refuseUnknown("call", options, ["args", "kwargs", "timeoutSeconds", "signal"]);
    this.#refuseReleased();
    const { stepping, call } = this.#context;
    const run = () => call(name, { ...options, where: [this.index] });
    const { results, errors } = await stepping.callBetween(run, options.signal);
    if (errors.size > 0) throw new RowsFailedError(errors, results);
    return results[this.index] ?? null;
  }

  /** Gives the row back to the pool, at once or when what is under way has ended. Releasing twice is harmless. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#context.stepping.giveBack(this.index);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.release();
  }

  async #ask(entry: Entry, signal: AbortSignal | undefined): Promise<RowOutcome> {
    const { stepping } = this.#context;
    signal?.throwIfAborted();
    this.#refuseReleased();
    for (;;) {
      const earlier = stepping.drain(this.index, signal) ?? stepping.awaitTurn(signal);
      if (earlier === null) break;
      await earlier;
      this.#refuseReleased();
    }
    const wasReset = this.#wasReset;
    this.#wasReset = false;
    try {
      const outcome = await stepping.ask(entry, signal);
      this.#wasReset = true;
      return outcome;
    } catch (error) {
      // Refused: nothing was sent to the environment, so its episode is where it was.
      if (!stepping.isAsked(this.index)) this.#wasReset = wasReset;
      throw error;
    }
  }

  #report<Result extends RowReset>(result: Result): Result & { observation: Observation } {
    const errors = new Map(result.error === null ? [] : [[this.index, result.error]]);
    return this.#context.reporter.report(result, errors) as Result & { observation: Observation };
  }

  #refuseReleased(): void {
    if (!this.#isReleased) return;
    throw new ArgumentError(
      `Row ${this.index} was used after its release; expected an environment that is checked out.`,
      {
        hint: "Check another one out with pool.env().",
      },
    );
  }
}
