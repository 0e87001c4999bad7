import { type PoolEndedError, SandpoolError } from "../errors.ts";
import type { Batches } from "../pool/batches.ts";
import type { PoolEndpoint } from "../pool/endpoint.ts";
import type { Observations } from "../pool/observations.ts";
import type { PoolTiming } from "../pool/timing.ts";
import type { Entry } from "./entries.ts";
import { FreeRows } from "./freeRows.ts";
import { Inbox } from "./inbox.ts";
import { type Part, pickPlaces } from "./results.ts";
import { type RowOutcome, RowRequests } from "./rowRequests.ts";
import { Session } from "./session.ts";
import { type Receiver, Stream } from "./stream.ts";
import { Turns } from "./turns.ts";
import type { WaitLimits } from "./waiting.ts";

export interface SteppingOptions {
  poolId: string;
  n: number;
  endpoint: PoolEndpoint;
  observations: Observations;
  timing: PoolTiming;
  batches: Batches;
  silenceMs: number;
}

/**
 * Asynchronous stepping of a pool: rows that are sent and received, and rows that are checked out. A row is one or the other at
 * a time, and batches wait until it is neither.
 */
export class AsynchronousStepping implements Receiver {
  readonly #inbox = new Inbox();
  readonly #requests = new RowRequests();
  readonly #free: FreeRows;
  readonly #session: Session;
  readonly #stream: Stream;
  readonly #observations: Observations;
  readonly #batches: Batches;
  readonly #turns: Turns;
  /** Rows that were released before what they were asked has come. */
  readonly #leaving = new Set<number>();
  readonly #lost = new Set<number>();

  constructor({ poolId, n, endpoint, observations, timing, batches, silenceMs }: SteppingOptions) {
    this.#observations = observations;
    this.#batches = batches;
    this.#free = new FreeRows(n, (row) => !this.#inbox.rows.has(row));
    this.#session = new Session(n, observations, timing);
    this.#stream = new Stream({
      target: { endpoint, poolId },
      session: this.#session,
      receiver: this,
      settle: () => batches.settle(),
      silenceMs,
    });
    this.#turns = new Turns({ isBusy: () => this.#session.isBusy, wake: () => this.#stream.wake() });
    batches.guard = (operation, signal) => this.#guardBatch(operation, signal);
  }

  /** Rows that were sent and whose results no `receive` has taken, ascending. */
  get rowsOut(): number[] {
    return [...this.#inbox.rows].sort((left, right) => left - right);
  }

  /** Sends an entry off. Throws `pool_busy` when one of its rows is out or checked out, or a batch runs. */
  send(entry: Entry): void {
    this.#inbox.throwFailure();
    this.#refuseDuringBatch();
    const busy = entry.rows.filter((row) => this.#inbox.rows.has(row) || this.#free.held.has(row));
    if (busy.length > 0) {
      throw new SandpoolError(
        "pool_busy",
        `${busy.length} of the rows to be sent are out or checked out, the first is row ${busy[0]}; expected rows whose results were taken.`,
        { hint: "A row has one thing out at a time: recv its result first.", details: { rows: busy } },
      );
    }
    for (const row of entry.rows) this.#inbox.rows.add(row);
    this.#session.put(entry);
    this.#stream.wake();
  }

  /** Waits until results of `minReady` rows are there and takes all that are. */
  async receive(minReady: number, limits: WaitLimits): Promise<Part[]> {
    if (this.#inbox.isAwaited) {
      throw new SandpoolError("pool_busy", "recv was called while another recv waits.", {
        hint: "Let one loop receive, or check out environments with pool.env().",
      });
    }
    // After a failure that lost nothing: asking again is trying again.
    if (this.#session.isBusy) this.#stream.wake();
    const parts = await this.#inbox.take(minReady, limits);
    this.#free.serve();
    return parts;
  }

  /** Checks a free row out. */
  checkOut(limits: WaitLimits): Promise<number> {
    // After a failure that lost nothing: asking again is trying again.
    if (this.#leaving.size > 0) this.#stream.wake();
    return this.#free.acquire(limits);
  }

  /** Gives a row back, at the latest when what it was asked has come. */
  giveBack(row: number): void {
    const back = this.#requests.whenBack(row);
    if (back === null) {
      this.#free.release(row);
      return;
    }
    this.#leaving.add(row);
    void back.then(() => {
      this.#leaving.delete(row);
      this.#free.release(row);
    });
    if (this.#free.isAwaited) this.#stream.wake();
  }

  /** Throws `pool_busy` when somebody still waits for the row. */
  refuseBusy(row: number): void {
    this.#requests.refuseBusy(row);
  }

  /**
   * Waits for the result of a checked out row that nobody wants any more; null if there is none to wait for. Throws `pool_busy`
   * when somebody does want it, and what keeps the server out of reach.
   */
  drain(row: number, signal: AbortSignal | undefined): Promise<void> | null {
    this.#requests.refuseBusy(row);
    const back = this.#requests.comeBack(row, signal);
    // After a failure that lost nothing: asking again is trying again.
    if (back !== null) this.#stream.wake();
    return back;
  }

  /** Whether a row was asked and has not answered. */
  isAsked(row: number): boolean {
    return this.#requests.whenBack(row) !== null;
  }

  /** Runs a batch between the rows' messages: waits until all that are out are back, and holds back what is asked meanwhile. */
  callBetween<Result>(run: () => Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
    return this.#turns.take(run, signal);
  }

  /** Waits for the end of a call of another environment; null if there is none. */
  awaitTurn(signal: AbortSignal | undefined): Promise<void> | null {
    return this.#turns.pass(signal);
  }

  /** Whether the row was lost when it was last heard of: only a hard reset brings it back. */
  isLost(row: number): boolean {
    return this.#lost.has(row);
  }

  /** Asks one row that is checked out and drained, and waits for its result. */
  ask(entry: Entry, signal: AbortSignal | undefined): Promise<RowOutcome> {
    const row = entry.rows[0] as number;
    this.#requests.refuseBusy(row);
    this.#refuseDuringBatch();
    const outcome = this.#requests.await(row, signal);
    this.#session.put(entry);
    this.#stream.wake();
    return outcome;
  }

  deliver(part: Part): void {
    for (const row of part.rows) {
      if (part.errors.get(row)?.kind === "lost") this.#lost.add(row);
      else this.#lost.delete(row);
    }
    const others = this.#requests.take(part, this.#observations);
    if (others.length === part.rows.length) this.#inbox.add(part);
    else if (others.length > 0) this.#inbox.add(pickPlaces(part, others, this.#observations));
    this.#turns.look();
  }

  refuse(rows: readonly number[], error: SandpoolError): void {
    const others = this.#requests.refuse(rows, error);
    if (others.length > 0) this.#inbox.refuse(others, error);
    this.#free.serve();
    this.#turns.look();
  }

  fail(error: SandpoolError, isFinal: boolean): void {
    if (isFinal) this.#session.forget();
    this.#requests.fail(error, isFinal);
    if (this.#inbox.rows.size > 0) this.#inbox.fail(error, isFinal);
    this.#free.fail(error);
    this.#turns.fail(error);
  }

  /** Closes the connection; whoever waits gets `reason`. */
  async close(reason: PoolEndedError): Promise<void> {
    this.fail(reason, true);
    await this.#stream.close();
  }

  /** Lets a batch wait for rows that were released and are not back, unless somebody else waits for one; refuses it for any others. */
  #guardBatch(operation: string, signal: AbortSignal | undefined): Promise<void> | null {
    if (this.#turns.isActing) return null;
    const leaving = this.#free.isAwaited ? 0 : this.#leaving.size;
    const [out, held] = [this.#inbox.rows.size, this.#free.held.size - leaving];
    if (out === 0 && held === 0 && leaving > 0) return this.#waitForLeaving(signal);
    if (out === 0 && held === 0 && !this.#session.isBusy) return null;
    const reason = out > 0 || held === 0 ? `${out} rows are out` : `${held} environments are checked out`;
    throw new SandpoolError("pool_busy", `${operation} was called while ${reason}; expected none.`, {
      hint: "Take all results with recv and release all environments first: batches and the stream take turns.",
      details: { out, checked_out: held },
    });
  }

  async #waitForLeaving(signal: AbortSignal | undefined): Promise<void> {
    this.#stream.wake();
    for (const row of [...this.#leaving]) await this.#requests.comeBack(row, signal);
  }

  #refuseDuringBatch(): void {
    const running = this.#turns.isTaken ? "call" : this.#batches.running;
    if (running === null || running === "settle") return;
    throw new SandpoolError("pool_busy", `Rows were to be sent while ${running} of the same pool is not done.`, {
      hint: "Await the call first: batches and the stream take turns.",
    });
  }
}
