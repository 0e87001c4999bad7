import type { PoolReply } from "@sandpool/protocol";
import { ArgumentError, SandpoolError } from "../errors.ts";
import { discoverEndpoint } from "../http/credentials.ts";
import { Transport } from "../http/transport.ts";
import { encodeValue } from "../values/encode.ts";
import { requestJson } from "../values/json.ts";
import type { Value, ValueObject } from "../values/types.ts";
import { type Actions, encodeStep } from "./actions.ts";
import { Batches } from "./batches.ts";
import { BATCH_ACCEPT, type BatchReply, readBatchReply } from "./batchReply.ts";
import { createPool } from "./create.ts";
import { readDescription } from "./description.ts";
import { LeaseKeeper } from "./lease.ts";
import { Observations } from "./observations.ts";
import { checkObjects, type PoolOptions, refuseUnknown } from "./options.ts";
import {
  type CallResult,
  errorsOf,
  fullInfos,
  fullStep,
  type ResetResult,
  type StepResult,
  spreadRows,
} from "./results.ts";
import { type RowError, RowsFailedError, RowWarnings } from "./rowErrors.ts";
import { pickRows, type Selection, selectRows, type Where } from "./selection.ts";
import { PoolTiming } from "./timing.ts";

export interface ConnectOptions {
  url?: string;
  apiKey?: string;
  /** A transport in use already; `Sandpool` passes its own. */
  transport?: Transport;
}

export interface ResetOptions {
  /** Row i gets seed + i; or a list of n, null for a row's own rule. */
  seed?: number | null | readonly (number | null)[];
  where?: Where | null;
  /** Kill, wipe the workspace and start anew instead of the environment's own reset. */
  hard?: boolean;
  /** One object for all rows, or a list. */
  options?: ValueObject | readonly (ValueObject | null)[] | null;
}

export interface CallOptions {
  args?: readonly Value[];
  kwargs?: ValueObject;
  where?: Where | null;
  timeoutSeconds?: number | null;
}

interface PoolMode {
  raises: boolean;
  warns: boolean;
  attached: boolean;
  firstReset: boolean;
}

/**
 * N isolated environments behind one batched call.
 *
 * @example
 * await using pool = await RLPool.create("envs/cartpole", { n: 64 });
 * await pool.reset({ seed: 1 });
 * const { observations, rewards, dones } = await pool.step(new Array(64).fill(0));
 */
export class RLPool implements AsyncDisposable {
  readonly id: string;
  readonly n: number;
  /** As the server described the pool when it was made or attached: spaces, layout, start, limits. */
  readonly description: PoolReply;
  /** Observations of the first reset; null with `firstReset: false`. */
  readonly initialObservations: Value;
  /** Infos of the last reset. */
  resetInfos: ValueObject[];
  readonly timing = new PoolTiming();

  private readonly transport: Transport;
  private readonly path: string;
  private readonly batches: Batches;
  private readonly lastObservations: Observations;
  private readonly lease: LeaseKeeper;
  private readonly warnings = new RowWarnings();
  private readonly mode: PoolMode;
  private state: "open" | "closed" | "detached" = "open";

  private constructor(transport: Transport, description: PoolReply, first: BatchReply, mode: PoolMode) {
    this.transport = transport;
    this.description = description;
    this.id = description.id;
    this.n = description.n;
    this.path = `/v1/pools/${encodeURIComponent(description.id)}`;
    this.mode = mode;
    this.batches = new Batches(transport, this.path, this.timing, description.next_seq);
    this.lastObservations = new Observations(description.layout, description.n);
    if (first.observations !== null) this.lastObservations.update(first.observations, null, []);
    this.initialObservations = mode.firstReset ? this.lastObservations.current() : null;
    this.resetInfos = fullInfos(first, description.n);
    this.lease = new LeaseKeeper(transport, this.path, description.lease.seconds, this);
  }

  /**
   * Makes a pool from a folder with `env.py` (or an executable `env`) or from one program. Every environment was reset once when
   * this returns. Throws `EnvironmentError` when an environment cannot start or reset; then nothing is left on the server.
   */
  static async create(environmentPath: string, options: PoolOptions, connection: ConnectOptions = {}): Promise<RLPool> {
    const transport = connection.transport ?? new Transport(discoverEndpoint(connection));
    const mode = modeOf(options, false);
    const description = await createPool(transport, environmentPath, options);
    return new RLPool(transport, description, await observe(transport, description), mode);
  }

  /** Joins a living pool by id or name. Leaving an `await using` block detaches; `close()` closes it for everyone. */
  static async attach(
    idOrName: string,
    options: ConnectOptions & Pick<PoolOptions, "errors" | "warn"> = {},
  ): Promise<RLPool> {
    const transport = options.transport ?? new Transport(discoverEndpoint(options));
    const path = `/v1/pools/${encodeURIComponent(idOrName)}`;
    const mode = modeOf(options, true);
    const description = readDescription(await transport.json("GET", path, { retries: 3 }));
    return new RLPool(transport, description, await observe(transport, description), mode);
  }

  /** Resets rows (all by default). Rows that were not selected keep their last observation. */
  async reset(options: ResetOptions = {}): Promise<ResetResult> {
    refuseUnknown("reset", options, ["seed", "where", "hard", "options"]);
    const selection = this.select(options.where);
    if (selection.count === 0)
      return { observations: this.lastObservations.current(), infos: fullInfos(null, this.n), errors: new Map() };
    const seed = Array.isArray(options.seed)
      ? pickRows("seed", options.seed, selection, this.n)
      : (options.seed ?? null);
    const rowOptions = this.rowValues("options", options.options ?? null, selection);
    const body = { seed, where: selection.rows, hard: options.hard ?? false, options: rowOptions };
    const reply = await this.batches.run("reset", (number) => json({ ...number, ...body }), this.absorb(selection));
    this.resetInfos = fullInfos(reply, this.n);
    const errors = this.report(errorsOf(reply));
    return { observations: this.lastObservations.current(), infos: this.resetInfos, errors };
  }

  /** Steps rows with one action a selected row in the order of `where`, or one a row of the pool. An array of actions travels as one buffer. */
  async step(actions: Actions, where: Where | null = null): Promise<StepResult> {
    const selection = this.select(where);
    if (selection.count === 0) return fullStep(null, selection, this.n, this.lastObservations.current());
    const reply = await this.batches.run("step", encodeStep(actions, selection, this.n), this.absorb(selection));
    const result = fullStep(reply, selection, this.n, this.lastObservations.current());
    this.report(result.errors);
    return result;
  }

  /** Calls a method of the environments (not reset, step or close). */
  async call(name: string, options: CallOptions = {}): Promise<CallResult> {
    refuseUnknown("call", options, ["args", "kwargs", "where", "timeoutSeconds"]);
    const { args = [], kwargs = {}, where = null, timeoutSeconds = null } = options;
    const encoded = { args: encodeValue(args, "args"), kwargs: encodeValue(kwargs, "kwargs") };
    return this.runCall({ call: "call", name, ...encoded, timeout: timeoutSeconds }, where);
  }

  /** Reads an attribute, through the wrappers. */
  async getAttr(name: string, where: Where | null = null): Promise<CallResult> {
    return this.runCall({ call: "get", name }, where);
  }

  /** Sets an attribute: one value for all rows, or with `perRow` a list with one item a selected row. */
  async setAttr(
    name: string,
    value: Value,
    options: { where?: Where | null; perRow?: boolean } = {},
  ): Promise<CallResult> {
    const where = options.where ?? null;
    if (!options.perRow) return this.runCall({ call: "set", name, values: encodeValue(value) }, where);
    if (!Array.isArray(value)) throw new ArgumentError(`setAttr with perRow got a ${typeof value}; expected a list.`);
    const values = pickRows("values", value, this.select(where), this.n).map((item) => encodeValue(item));
    return this.runCall({ call: "set", name, values, per_row: true }, where);
  }

  /** Description, rows and counters; with `memory`, the PSS of every environment, sampled off the step path. */
  async status(options: { memory?: boolean } = {}): Promise<PoolReply> {
    this.assertOpen();
    return readDescription(
      await this.transport.json("GET", `${this.path}?memory=${options.memory === true}`, { retries: 3 }),
    );
  }

  /** The last 64 KiB of a row's standard error, as it came: escape it before showing it in a terminal. */
  async logs(row: number): Promise<string> {
    this.assertOpen();
    return this.transport.send(
      "GET",
      `${this.path}/logs?row=${row}`,
      { accept: "text/plain", retries: 3 },
      (response) => response.text(),
    );
  }

  /** Closes the pool on the server; after it nothing of the pool is left. Closing twice is harmless. */
  async close(): Promise<void> {
    if (this.state === "closed") return;
    this.state = "closed";
    this.lease.stop();
    await this.transport.json("DELETE", this.path, { retries: 3 }).catch((error: unknown) => {
      const gone = error instanceof SandpoolError && (error.status === 404 || error.status === 410);
      if (!gone) throw error;
    });
  }

  /** Stops keeping the pool alive and leaves it to its lease or another client. */
  detach(): void {
    if (this.state === "open") this.state = "detached";
    this.lease.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.mode.attached) this.detach();
    else await this.close();
  }

  private async runCall(request: Readonly<Record<string, unknown>>, where: Where | null): Promise<CallResult> {
    const selection = this.select(where);
    if (selection.count === 0) return { results: new Array<Value>(this.n).fill(null), errors: new Map() };
    const reply = await this.batches.run(
      "call",
      (number) => json({ ...number, ...request, where: selection.rows }),
      () => undefined,
    );
    const results = spreadRows<Value>(reply.results ?? [], selection, this.n, null);
    return { results, errors: this.report(errorsOf(reply)) };
  }

  private absorb(selection: Selection): (reply: BatchReply) => void {
    return (reply) => {
      if (reply.observations !== null) this.lastObservations.update(reply.observations, selection.rows, reply.failed);
    };
  }

  private select(where: Where | null | undefined): Selection {
    this.assertOpen();
    return selectRows(where, this.n);
  }

  private rowValues(what: string, value: ResetOptions["options"], selection: Selection): unknown {
    checkObjects(what, value);
    if (!Array.isArray(value)) return encodeValue(value, what);
    return pickRows(what, value, selection, this.n).map((item, index) => encodeValue(item, `${what}[${index}]`));
  }

  private report(errors: ReadonlyMap<number, RowError>): ReadonlyMap<number, RowError> {
    if (errors.size === 0) return errors;
    if (this.mode.raises) throw new RowsFailedError(errors);
    if (this.mode.warns) this.warnings.warn(errors);
    return errors;
  }

  private assertOpen(): void {
    if (this.state === "open") return;
    throw new SandpoolError("pool_closed", `The pool ${this.id} is ${this.state} on this client.`, {
      hint: this.state === "closed" ? "Create a new pool." : "Attach to it again with RLPool.attach.",
    });
  }
}

function modeOf(options: Pick<PoolOptions, "errors" | "warn" | "firstReset">, attached: boolean): PoolMode {
  const { errors = "rows", warn, firstReset } = options;
  if (errors !== "rows" && errors !== "raise") {
    throw new ArgumentError(`errors is ${JSON.stringify(errors)}; expected "rows" or "raise".`);
  }
  return { raises: errors === "raise", warns: warn !== false, firstReset: firstReset !== false, attached };
}

function observe(transport: Transport, description: PoolReply): Promise<BatchReply> {
  const path = `/v1/pools/${encodeURIComponent(description.id)}/observations`;
  return transport.send("GET", path, { accept: BATCH_ACCEPT, retries: 3 }, readBatchReply);
}

function json(request: object): { body: string; contentType: string } {
  return { body: requestJson(request), contentType: "application/json" };
}
