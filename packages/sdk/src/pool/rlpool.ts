import type { PoolReply } from "@sandpool/protocol";
import { ArgumentError, SandpoolError } from "../errors.ts";
import { escapeControl } from "../escape.ts";
import { discoverEndpoint } from "../http/credentials.ts";
import { Transport } from "../http/transport.ts";
import { makeResets, makeSteps, type ResetChoice } from "../stream/entries.ts";
import { Environment } from "../stream/environment.ts";
import { joinParts, type ReceivedResult } from "../stream/results.ts";
import { AsynchronousStepping } from "../stream/stepping.ts";
import type { WaitLimits } from "../stream/waiting.ts";
import { describe } from "../values/describe.ts";
import type { Value, ValueObject } from "../values/types.ts";
import type { Actions } from "./actions.ts";
import { BATCH_ACCEPT, type BatchReply, readBatchReply } from "./batchReply.ts";
import { BranchedPool } from "./branched.ts";
import { createPool } from "./create.ts";
import { readDescription } from "./description.ts";
import type { PoolOptions } from "./options.ts";
import { checkDuration } from "./requests.ts";
import { emitSandpoolWarning, RowReporter } from "./rowErrors.ts";
import { readWhereOption, refuseUnknown, type WhereOption } from "./selection.ts";
import { Timeouts } from "./timeouts.ts";

/** Which server, and the key for it. Default: `SANDPOOL_URL` with `SANDPOOL_API_KEY`, else what `sandpool up` left for this account. */
export interface ConnectOptions {
  url?: string;
  apiKey?: string;
  /** A transport in use already; `Sandpool` passes its own. */
  transport?: Transport;
}

/** How long a `recv` waits. */
export interface ReceiveOptions {
  /** At least so many rows; never more than are out. Default 1. */
  minReady?: number;
  /** Throws `NotReadyError` after it. Default: as long as the pool's deadlines allow. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/**
 * N isolated environments behind one batched call, or each at its own pace.
 *
 * `Observations` is the caller's word for what an observation of n rows is, such as `NdArray` for an array pool or `string[]`
 * for a list pool; like a cast, nothing checks it.
 *
 * @example
 * await using pool = await RLPool.create<NdArray>("envs/cartpole", { n: 64, autoreset: "same_step" });
 * await pool.reset({ seed: 1 });
 * const { observations, rewards, dones } = await pool.step(new Int32Array(64));
 */
export class RLPool<Observations = Value> extends BranchedPool<Observations> {
  #stepping: AsynchronousStepping | null = null;

  /**
   * Makes a pool from a folder with `env.py` (or an executable `env`) or from one program. Every environment was reset once when
   * this returns. Throws `EnvironmentError` when an environment cannot start or reset; then nothing is left on the server.
   */
  static async create<Observations = Value>(
    environmentPath: string,
    options: PoolOptions,
    connection: ConnectOptions = {},
  ): Promise<RLPool<Observations>> {
    const server = connection.transport ?? new Transport(discoverEndpoint(connection));
    const reporter = reporterOf(options);
    const description = await createPool(server, environmentPath, options);
    const timeouts = new Timeouts(description, options.inFlight);
    const first = await observe(server, description);
    if (options.warn !== false) for (const warning of description.warnings) emitSandpoolWarning(escapeControl(warning));
    const firstReset = options.firstReset !== false;
    return new RLPool({ server, description, first, attached: false, firstReset, timeouts, reporter });
  }

  /** Joins a living pool by id or name. Leaving an `await using` block detaches; `close()` closes it for everyone. */
  static async attach<Observations = Value>(
    idOrName: string,
    options: ConnectOptions & Pick<PoolOptions, "errors" | "warn"> = {},
  ): Promise<RLPool<Observations>> {
    const server = options.transport ?? new Transport(discoverEndpoint(options));
    const reporter = reporterOf(options);
    const path = `/v1/pools/${encodeURIComponent(idOrName)}`;
    const description = readDescription(await server.json("GET", path, { retries: 3 }));
    const first = await observe(server, description);
    const timeouts = new Timeouts(description);
    return new RLPool({ server, description, first, attached: true, firstReset: true, timeouts, reporter });
  }

  /** Rows that were sent and whose results no `recv` has returned, ascending. */
  get rowsOut(): number[] {
    return this.#stepping?.rowsOut ?? [];
  }

  /**
   * Sends steps off and returns at once; each row's result comes with a later `recv`. Actions are those of `step`. What is sent
   * in one turn of the event loop travels together.
   *
   * Throws `ArgumentError` for wrong actions and `pool_busy` when one of the rows is out or checked out; then nothing was sent.
   *
   * @example
   * pool.sendReset();
   * for await (const ready of pool.results({ minReady: 8 })) {
   *   if (isTraining()) pool.send(policy(ready.observations), ready.index);
   * }
   */
  send(actions: Actions, where?: WhereOption<object>): void {
    const options = readWhereOption("send", where, []);
    this.assertOpen();
    const entry = makeSteps(actions, options.where, this.n, this.actionForm);
    if (entry.rows.length > 0) this.stepping().send(entry);
  }

  /** Sends resets off and returns at once; lists have one item a selected row, in the order of `where`, or n. Throws as `send` does. */
  sendReset(choice: ResetChoice = {}): void {
    refuseUnknown("sendReset", choice, ["seed", "where", "hard", "options"]);
    this.assertOpen();
    const entry = makeResets(choice, this.n);
    if (entry.rows.length > 0) this.stepping().send(entry);
  }

  /**
   * Waits until results of `minReady` rows are there and gives all that are, in the order in which they finished.
   *
   * Throws `NotReadyError` after `timeoutMs` and the signal's reason when it aborts (nothing is lost: the next `recv` gives what is
   * ready then), `ArgumentError` when fewer rows are out than asked for, the error of a message that the pool refused (nothing of
   * it was sent to any row), `RowsFailedError` with `errors: "raise"`, `ConnectionError` when the server cannot be reached (what is
   * out stays out: `recv` again), and `PoolEndedError`.
   */
  async recv(options: ReceiveOptions = {}): Promise<ReceivedResult<Observations>> {
    refuseUnknown("recv", options, ["minReady", "timeoutMs", "signal"]);
    const { minReady = 1, timeoutMs, signal } = options;
    if (!Number.isSafeInteger(minReady) || minReady < 1) {
      throw new ArgumentError(`minReady is ${describe(minReady)}; expected a whole number of at least 1.`);
    }
    checkDuration("timeoutMs", timeoutMs);
    this.assertOpen();
    const parts = await this.stepping().receive(minReady, { timeoutMs, signal });
    const result = joinParts(parts, this.observations) as ReceivedResult<Observations>;
    for (const [place, row] of result.index.entries()) {
      if (result.ops[place] === "reset") this.resetInfos[row] = result.infos[place] as ValueObject;
    }
    return this.told(result);
  }

  /** The results of `recv` one after another, as long as rows are out; near the end of fewer than `minReady` rows. */
  async *results(
    options: Pick<ReceiveOptions, "minReady" | "signal"> = {},
  ): AsyncGenerator<ReceivedResult<Observations>, void, undefined> {
    refuseUnknown("results", options, ["minReady", "signal"]);
    const { minReady = 1 } = options;
    for (let out = this.rowsOut.length; out > 0; out = this.rowsOut.length) {
      yield await this.recv({ ...options, minReady: Math.min(minReady, out) });
    }
  }

  /**
   * Checks a free row out, the one that was given back longest ago, and waits when there is none. For rollouts that are
   * independent of each other: each has an environment of its own for a while. Batches are refused meanwhile; `send` may use the
   * other rows.
   *
   * Throws `NotReadyError` after `timeoutMs`, the signal's reason when it aborts, `vectorized_unsupported` where rows share a
   * vectorised environment, and `PoolEndedError`.
   *
   * @example
   * const rollout = async (task: string) => {
   *   await using env = await pool.env();
   *   let { observation } = await env.reset({ options: { task } });
   *   …
   * };
   * await Promise.all(tasks.map(rollout));
   */
  async env<Observation = Value>(limits: WaitLimits = {}): Promise<Environment<Observation>> {
    refuseUnknown("env", limits, ["timeoutMs", "signal"]);
    checkDuration("timeoutMs", limits.timeoutMs);
    this.assertOpen();
    if (this.description.vector !== null) throw noSingleRows(this.description.vector.class);
    const stepping = this.stepping();
    const row = await stepping.checkOut(limits);
    return new Environment<Observation>(row, {
      ...{ stepping, n: this.n, actionSpace: this.actionForm, reporter: this.reporter },
      onReset: (reset, info) => {
        this.resetInfos[reset] = info;
      },
      call: (name, options) => this.callUntold(name, options),
    });
  }

  protected override async letGo(): Promise<void> {
    await Promise.all([this.#stepping?.close(this.endedHere()), super.letGo()]);
  }

  private stepping(): AsynchronousStepping {
    this.#stepping ??= new AsynchronousStepping({
      ...{ poolId: this.id, n: this.n, endpoint: this.endpoint, observations: this.observations },
      ...{ timing: this.timing, batches: this.batches },
      silenceMs: Math.max(this.timeouts.stepMs, this.timeouts.resetMs),
    });
    return this.#stepping;
  }
}

function noSingleRows(className: string): SandpoolError {
  return new SandpoolError(
    "vectorized_unsupported",
    `env was called on a pool of ${className}, whose rows are stepped together; expected environments of their own.`,
    { hint: "Use step, or send and recv with all rows of a process.", details: { class: className } },
  );
}

function reporterOf({ errors = "rows", warn }: Pick<PoolOptions, "errors" | "warn">): RowReporter {
  if (errors !== "rows" && errors !== "raise") {
    throw new ArgumentError(`errors is ${JSON.stringify(errors)}; expected "rows" or "raise".`);
  }
  return new RowReporter({ raises: errors === "raise", warns: warn !== false });
}

function observe(transport: Transport, description: PoolReply): Promise<BatchReply> {
  const path = `/v1/pools/${encodeURIComponent(description.id)}/observations`;
  return transport.send("GET", path, { accept: BATCH_ACCEPT, retries: 3 }, readBatchReply);
}
