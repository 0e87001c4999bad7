import type { PoolReply } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import { Transport } from "../http/transport.ts";
import type { ResetChoice } from "../stream/entries.ts";
import { describe } from "../values/describe.ts";
import { encodeValue } from "../values/encode.ts";
import type { Value, ValueObject } from "../values/types.ts";
import { type ActionSpace, readActionSpace } from "./actionSpace.ts";
import { type Actions, readActions } from "./actions.ts";
import { Batches } from "./batches.ts";
import { type BatchReply, columnOf } from "./batchReply.ts";
import { findPoolEndpoint, type PoolEndpoint } from "./endpoint.ts";
import { PoolHandle } from "./handle.ts";
import { makeObservations, type Observations as ObservationStore } from "./observations.ts";
import {
  checkDuration,
  checkHard,
  checkObjects,
  jsonRequest,
  readOptions,
  readSeeds,
  stepRequest,
} from "./requests.ts";
import {
  type CallResult,
  emptyStep,
  errorsOf,
  fullInfos,
  fullStep,
  type ResetResult,
  type RowErrors,
  type StepResult,
  spreadRows,
} from "./results.ts";
import type { RowReporter } from "./rowErrors.ts";
import { pickRows, readWhereOption, refuseUnknown, type Selection, selectRows, type WhereOption } from "./selection.ts";
import type { Timeouts } from "./timeouts.ts";
import { PoolTiming } from "./timing.ts";

/** What a reset may be asked; an aborted `signal` gives up the wait, and the next call first finds out what became of the reset. */
export interface ResetOptions extends ResetChoice {
  signal?: AbortSignal;
}

/** What a call may be given. */
export interface CallOptions {
  /** Positional arguments. */
  args?: readonly Value[];
  /** Keyword arguments. */
  kwargs?: ValueObject;
  /** A mask of n booleans or row indices. Default: all rows. */
  where?: WhereOption;
  /** Of one row. Default: the pool's `callTimeoutSeconds`. */
  timeoutSeconds?: number | null;
  signal?: AbortSignal;
}

/** What a pool object is made of. */
export interface PoolParts {
  server: Transport;
  description: PoolReply;
  /** What the rows had when this object came to them. */
  first: BatchReply;
  attached: boolean;
  firstReset: boolean;
  timeouts: Timeouts;
  reporter: RowReporter;
}

type CallKind = "call" | "get" | "set" | "has" | "wrapped";

/** A pool's batches: one request for all rows, one at a time. */
export class BatchedPool<Observations = Value> extends PoolHandle {
  /** Observations of the first reset; null with `firstReset: false`. */
  readonly initialObservations: Observations;
  /** The info of each row's last reset, n of them. */
  resetInfos: ValueObject[];
  /** The errors of the rows that failed in the last batch or `recv`, by row. */
  errors: RowErrors = new Map();
  /** How long batches took. */
  readonly timing = new PoolTiming();
  protected readonly batches: Batches;
  protected readonly endpoint: PoolEndpoint;
  protected readonly observations: ObservationStore;
  protected readonly actionForm: ActionSpace | null;
  protected readonly reporter: RowReporter;
  protected readonly timeouts: Timeouts;
  private readonly connection: Transport;

  protected constructor({ server, description, first, attached, firstReset, timeouts, reporter }: PoolParts) {
    super(server, description, attached);
    this.timeouts = timeouts;
    this.reporter = reporter;
    this.endpoint = findPoolEndpoint(server.endpoint, description);
    this.connection = new Transport(this.endpoint, { dedicated: true, socketPath: this.endpoint.socketPath });
    this.batches = new Batches(this.connection, this.path, this.timing, description.next_seq);
    this.actionForm = readActionSpace(description.action_space);
    this.observations = makeObservations(description.layout, this.n);
    if (first.observations !== null) this.observations.merge(first.observations, null, first.failed);
    this.initialObservations = (firstReset ? this.observations.last() : null) as Observations;
    this.resetInfos = fullInfos(first, this.n);
  }

  /**
   * Resets rows (all by default). Rows that were not selected keep their last observation.
   *
   * Throws `ArgumentError` for a wrong option (nothing was sent), `pool_busy` while another call runs or rows are out,
   * `RowsFailedError` with `errors: "raise"`, `PoolEndedError`, and `ConnectionError` when the server cannot be reached.
   */
  async reset(options: ResetOptions = {}): Promise<ResetResult<Observations>> {
    refuseUnknown("reset", options, ["seed", "where", "hard", "options", "signal"]);
    const selection = this.select(options.where);
    const members = {
      seed: readSeeds(options.seed, selection, this.n),
      where: selection.rows,
      hard: checkHard(options.hard),
      options: readOptions(options.options, selection, this.n),
    };
    if (selection.count === 0) return this.told({ ...this.unchanged(), infos: fullInfos(null, this.n) });
    const result = await this.batches.run({
      operation: "reset",
      encode: jsonRequest(members),
      absorb: (reply) => this.absorbReset(reply, selection),
      timeoutMs: this.timeouts.resetMs,
      signal: options.signal,
    });
    return this.told(result);
  }

  /**
   * Steps rows with one action a selected row in the order of `where`, or one a row of the pool. An array of actions travels as
   * one buffer. Rows that were not selected are not stepped. Throws as `reset` does.
   *
   * @example
   * const { observations, rewards, dones } = await pool.step(Int32Array.of(0, 1, 1));
   * await pool.reset({ where: dones });
   */
  async step(actions: Actions, where?: WhereOption): Promise<StepResult<Observations>> {
    const options = readWhereOption("step", where);
    const selection = this.select(options.where);
    const chosen = readActions(actions, selection, this.n, this.actionForm);
    if (selection.count === 0) return this.told(this.typed(emptyStep(selection, this.n, this.observations.last())));
    const result = await this.batches.run({
      operation: "step",
      encode: stepRequest(chosen, selection),
      absorb: (reply) => this.typed(fullStep(reply, selection, this.n, this.merge(reply, selection))),
      timeoutMs: this.timeouts.stepMs,
      signal: options.signal,
    });
    return this.told(result);
  }

  /**
   * Calls a method of the environments (not reset, step or close), found through the wrappers: one result a row. A call that
   * raises leaves its environment as it is; the error is in `errors`.
   */
  async call(name: string, options: CallOptions = {}): Promise<CallResult> {
    return this.told(await this.callUntold(name, options));
  }

  /** `call` without a word of its errors. */
  protected async callUntold(name: string, options: CallOptions): Promise<CallResult> {
    refuseUnknown("call", options, ["args", "kwargs", "where", "timeoutSeconds", "signal"]);
    const { args = [], kwargs = {}, where = null, timeoutSeconds = null, signal } = options;
    checkDuration("timeoutSeconds", timeoutSeconds);
    checkObjects("kwargs", kwargs);
    if (!Array.isArray(args)) throw new ArgumentError(`args is ${describe(args)}; expected a list.`);
    const members = { args: encodeValue(args, "args"), kwargs: encodeValue(kwargs, "kwargs"), timeout: timeoutSeconds };
    return this.runCall("call", name, members, { ...readWhereOption("call", where), ...(signal && { signal }) });
  }

  /** Reads an attribute, through the wrappers. */
  async getAttr(name: string, where?: WhereOption): Promise<CallResult> {
    return this.told(await this.runCall("get", name, {}, readWhereOption("getAttr", where)));
  }

  /** Sets an attribute: one value for all rows, or with `perRow` a list with one item a selected row, or one a row. */
  async setAttr(
    name: string,
    value: Value,
    where?: WhereOption<{ perRow?: boolean; signal?: AbortSignal }>,
  ): Promise<CallResult> {
    const { perRow = false, ...options } = readWhereOption("setAttr", where, ["perRow", "signal"]);
    if (!perRow) return this.told(await this.runCall("set", name, { values: encodeValue(value, "value") }, options));
    if (!Array.isArray(value)) throw new ArgumentError(`setAttr with perRow got ${describe(value)}; expected a list.`);
    const picked = pickRows("value", value, this.select(options.where), this.n);
    const values = picked.map((item, place) => encodeValue(item, `value[${place}]`));
    return this.told(await this.runCall("set", name, { values, per_row: true }, options));
  }

  /** Whether each environment has an attribute: booleans. */
  async hasAttr(name: string, where?: WhereOption): Promise<CallResult> {
    return this.told(await this.runCall("has", name, {}, readWhereOption("hasAttr", where)));
  }

  /** Whether each environment is wrapped by a class, named by its path such as `gymnasium.wrappers.TimeLimit`: booleans. */
  async isWrapped(classPath: string, where?: WhereOption): Promise<CallResult> {
    return this.told(await this.runCall("wrapped", classPath, {}, readWhereOption("isWrapped", where)));
  }

  protected override async letGo(): Promise<void> {
    await super.letGo();
    this.connection.close();
  }

  /** Keeps the errors of a result and tells the user of them. */
  protected told<Result extends { errors: RowErrors }>(result: Result): Result {
    this.errors = result.errors;
    return this.reporter.report(result, result.errors);
  }

  private async runCall(
    call: CallKind,
    name: string,
    members: object,
    { where, signal }: { where: Parameters<typeof selectRows>[0]; signal?: AbortSignal },
  ): Promise<CallResult> {
    const selection = this.select(where);
    if (typeof name !== "string" || name === "") {
      throw new ArgumentError(`name is ${describe(name)}; expected the name of a method, attribute or class.`);
    }
    if (selection.count === 0) return { results: new Array<Value>(this.n).fill(null), errors: new Map() };
    const { timeout = null } = members as { timeout?: number | null };
    return this.batches.run({
      operation: "call",
      encode: jsonRequest({ call, name, ...members, where: selection.rows }),
      absorb: (reply) => this.absorbCall(reply, selection),
      timeoutMs: this.timeouts.callMs(timeout),
      signal,
    });
  }

  protected absorbReset(reply: BatchReply, selection: Selection): ResetResult<Observations> {
    const observations = this.merge(reply, selection) as Observations;
    const infos = fullInfos(reply, this.n);
    const isSelected = new Set(selection.rows ?? infos.keys());
    this.resetInfos = this.resetInfos.map((last, row) => (isSelected.has(row) ? (infos[row] as ValueObject) : last));
    return { observations, infos, errors: errorsOf(reply) };
  }

  private absorbCall(reply: BatchReply, selection: Selection): CallResult {
    const errors = errorsOf(reply);
    const results = spreadRows<Value>(columnOf("results", reply.results, selection.count), selection, this.n, null);
    for (const row of errors.keys()) results[row] = null;
    return { results, errors };
  }

  private merge(reply: BatchReply, selection: Selection): Value {
    const columns = reply.observations ?? { kind: "list" as const, values: [] };
    return this.observations.merge(columns, selection.rows, reply.failed);
  }

  private unchanged(): Pick<ResetResult<Observations>, "observations" | "errors"> {
    return { observations: this.observations.last() as Observations, errors: new Map() };
  }

  private typed(result: StepResult): StepResult<Observations> {
    return result as StepResult<Observations>;
  }

  protected select(where: Parameters<typeof selectRows>[0]): Selection {
    this.assertOpen();
    return selectRows(where, this.n);
  }
}
