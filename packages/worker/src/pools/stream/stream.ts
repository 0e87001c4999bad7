import { SandpoolError } from "@sandpool/protocol";
import { fail } from "../../fail.ts";
import { countKinds } from "../batches/join.ts";
import type { ShardResult } from "../batches/result.ts";
import type { PoolCore } from "../core.ts";
import { poolGone } from "../gone.ts";
import type { Shard } from "../shards/shard.ts";
import type { RunningShard } from "../shards/start.ts";
import type { StreamConnection, StreamOptions, StreamRequest, StreamSink, StreamSummary } from "./contract.ts";
import { Dispatch } from "./dispatch.ts";
import { encodeResult } from "./encode-result.ts";
import { prepareWork } from "./prepare.ts";
import { forgotten, otherEncoding, ownFault, taken, takenOver } from "./refusals.ts";
import { type RowOut, RowsOut, type StreamOperation } from "./rows-out.ts";
import { Session } from "./session.ts";

interface Current {
  session: Session;
  dispatch: Dispatch;
}

/** Asynchronous stepping of one pool: one session at a time, whose connections come and go. Contract: docs/internals/stream.md. */
export class PoolStream {
  readonly out: RowsOut;
  readonly #core: PoolCore;
  readonly #watched = new WeakSet<RunningShard>();
  #current: Current | null = null;

  constructor(core: PoolCore) {
    this.#core = core;
    this.out = new RowsOut(core.turn);
  }

  /**
   * Opens a session or takes it up again. The messages that the client does not have are sent at once.
   * @throws `pool_busy` while another session has the stream, `invalid_request` where `received` or the encoding do not fit the session
   */
  open(options: StreamOptions, sink: StreamSink): StreamConnection {
    const current = this.#find(options);
    const { session } = current;
    session.sink?.end(takenOver());
    session.sink = null;
    session.attach(sink, options.received);
    const isCurrent = (): boolean => session.sink === sink;
    return {
      take: (request) => {
        if (isCurrent() && this.#advance(session, request.number)) this.#take(current, request);
      },
      refuse: (number, received, error) => {
        if (isCurrent() && this.#advance(session, number)) this.#refuse(session, number, received, error);
      },
      detach: () => {
        if (isCurrent()) session.sink = null;
      },
    };
  }

  /** An event frame of a shard's agent. */
  receive(shard: Shard, running: RunningShard, head: Record<string, unknown>, body: Buffer): void {
    if (head.event === "results") this.#current?.dispatch.receive(shard, running, head, body);
  }

  /** The pool closes: the session ends, and what is out comes to nothing. */
  end(): void {
    const session = this.#current?.session;
    const sink = session?.sink;
    if (session !== undefined) session.sink = null;
    this.#current = null;
    this.out.clear();
    sink?.end(poolGone(this.#core.plan.id, this.#core.closeReason) as SandpoolError);
  }

  #find({ session: name, encoding, received }: StreamOptions): Current {
    const current = this.#current;
    if (current?.session.name === name) {
      if (current.session.encoding !== encoding) throw otherEncoding();
      return current;
    }
    if (current !== null && (current.session.sink !== null || this.out.count > 0)) throw taken(this.out.count);
    if (received > 0) throw forgotten(received);
    const session = new Session(name, encoding);
    const dispatch = new Dispatch(this.#core, this.out, encoding, {
      onFinished: (rows, result) => this.#finish(session, rows, result),
      watch: (shard, running) => this.#watch(shard, running),
    });
    this.#current = { session, dispatch };
    return this.#current;
  }

  /** Rows that are out when their sandbox ends are the current session's, whichever that is then. */
  #watch(shard: Shard, running: RunningShard): void {
    if (this.#watched.has(running)) return;
    this.#watched.add(running);
    const tell = async (): Promise<void> => {
      if (this.#core.closing.aborted) return;
      const failure = await shard.death(running);
      this.#current?.dispatch.ended(shard, running, failure);
    };
    void running.agent.ended.then(tell);
  }

  /** Counts a message. False for one that was taken before. */
  #advance(session: Session, number: number): boolean {
    this.#core.lastUsedMs = Date.now();
    if (number <= session.accepted) return false;
    if (number > session.accepted + 1) {
      throw fail("invalid_request", `number: received ${number}; ${session.accepted + 1} is the next one.`, {
        hint: "Count the messages of a session from 1, and after a broken connection from `accepted` + 1.",
        details: { received: number, expected: session.accepted + 1 },
      });
    }
    session.accepted = number;
    return true;
  }

  #take({ session, dispatch }: Current, request: StreamRequest): void {
    try {
      session.report(request.received);
      this.#checkFree(session, request.where);
      const work = prepareWork(this.#core, request, session.encoding);
      if (work.isNewPoolSeed) this.#core.seed = (request as { seed: number }).seed;
      dispatch.send(work, (error) => session.refusal(request.number, asSandpoolError(error)));
    } catch (error) {
      session.refusal(request.number, error instanceof SandpoolError ? error : ownFault());
      if (!(error instanceof SandpoolError)) throw error;
    }
  }

  #refuse(session: Session, number: number, received: number, error: SandpoolError): void {
    try {
      session.report(received);
      session.refusal(number, error);
    } catch (wrong) {
      session.refusal(number, asSandpoolError(wrong));
    }
  }

  #checkFree(session: Session, where: readonly number[]): void {
    const { turn } = this.#core;
    if (turn.running) {
      throw fail("pool_busy", `A message of the stream arrived while batch ${turn.nextSeq - 1} runs.`, {
        hint: "Wait for the reply of the running batch.",
        details: { running: turn.nextSeq - 1 },
      });
    }
    const busy = where.filter((row) => this.out.get(row) !== undefined || session.isUnreported(row));
    if (busy.length === 0) return;
    throw fail(
      "pool_busy",
      `where: received ${busy.slice(0, 8).join(", ")}, which ${busy.length === 1 ? "is" : "are"} out.`,
      {
        hint: "Send a row's next message once its result is there, with that result's number in `received`.",
        details: { rows: busy.slice(0, 100) },
      },
    );
  }

  #finish(session: Session, rows: readonly number[], result: ShardResult): void {
    const outs = rows.map((row) => this.out.get(row) as RowOut);
    const ops = outs.map((out) => out.op);
    const sinceMs = outs.reduce((first, out) => Math.min(first, out.sinceMs), Number.POSITIVE_INFINITY);
    this.out.remove(rows);
    this.#core.lastUsedMs = Date.now();
    const columns = this.#core.columns("step", session.encoding);
    const finished = { number: session.nextResult, rows, ops, result, sinceMs };
    const message = { ...encodeResult(finished, columns, session.encoding), summary: summarise(ops, result) };
    session.result(rows, message);
  }
}

function summarise(ops: readonly StreamOperation[], result: ShardResult): StreamSummary {
  const failures: Record<string, number> = {};
  if (result.failed.length > 0) countKinds(result.fragments.at(-1) as Buffer, failures);
  const steps = ops.filter((op) => op === "step").length;
  return { steps, resets: ops.length - steps, stragglers: result.stragglers.length, failures };
}

/** What is not ours is a fault of our own and goes up. */
function asSandpoolError(error: unknown): SandpoolError {
  if (error instanceof SandpoolError) return error;
  throw error;
}
