import { agentError } from "../../agent/channel.ts";
import type { BatchEncoding } from "../../worker.ts";
import type { Column } from "../batches/columns.ts";
import type { ShardResult } from "../batches/result.ts";
import type { PoolCore } from "../core.ts";
import type { RowRange } from "../rows/ranges.ts";
import { rowsOf, type ShardSelection } from "../rows/select.ts";
import { whenRestarted } from "../shards/await-restart.ts";
import { failedResult, type ShardFailure, stillStarting, unknownFailure } from "../shards/failure.ts";
import { markReady, type Shard } from "../shards/shard.ts";
import { splitRestarted } from "../shards/split-restarted.ts";
import type { RunningShard } from "../shards/start.ts";
import { MessageOut } from "./message-out.ts";
import { type AgentMessage, pendingReset, type Work } from "./prepare.ts";
import { readResults } from "./read-results.ts";
import type { RowsOut, StreamOperation } from "./rows-out.ts";

/** Rows of one shard that finished; each was out. */
export type OnFinished = (rows: readonly number[], result: ShardResult) => void;

/** Sends one session's messages to the shards and brings each row's result back, whatever becomes of the shard meanwhile. */
export class Dispatch {
  readonly #core: PoolCore;
  readonly #out: RowsOut;
  readonly #encoding: BatchEncoding;
  readonly #columns: readonly Column[];
  readonly #onFinished: OnFinished;
  readonly #watch: (shard: Shard, running: RunningShard) => void;

  /** @param watch called for a sandbox that has rows; `ended` is to be called when it has ended */
  constructor(
    core: PoolCore,
    out: RowsOut,
    encoding: BatchEncoding,
    { onFinished, watch }: { onFinished: OnFinished; watch: (shard: Shard, running: RunningShard) => void },
  ) {
    this.#core = core;
    this.#out = out;
    this.#encoding = encoding;
    this.#columns = core.columns("step", encoding);
    this.#onFinished = onFinished;
    this.#watch = watch;
  }

  /** Its rows are out from here on. `onRefused` is called where nothing of it was sent to any row. */
  send(work: Work, onRefused: (error: Error) => void): void {
    const { parts } = work.selection;
    const rows = parts.map((part) => this.#rowsOf(part));
    const message = new MessageOut(
      (error) => {
        this.#out.remove(rows.flat());
        onRefused(error);
      },
      (part) => this.#fail(part.rows, refusedFailure(part.error), () => false),
    );
    for (const some of rows) this.#out.add(some, work.op);
    if (work.isNewPoolSeed) for (const shard of this.#core.shards) shard.episodes = 0;
    for (const part of parts) this.#route(this.#core.shards[part.shard] as Shard, work, part, message);
    message.sealed();
  }

  /** An event of a shard's agent. */
  receive(shard: Shard, running: RunningShard, head: Record<string, unknown>, body: Buffer): void {
    try {
      const { rows, result } = readResults(head, body, this.#encoding, this.#columns, (row) => {
        return this.#out.get(row)?.sent?.to === running;
      });
      if (shard.running === running) {
        const isReset = (row: number): boolean => this.#out.get(row)?.sent?.as === "reset";
        markReady(shard, rows.filter(isReset));
      }
      this.#onFinished(rows, result);
    } catch (error) {
      // Rows that nobody can tell apart any more would never come back.
      shard.kill({ ...unknownFailure, message: `Its sandbox was killed: ${(error as Error).message}` });
    }
  }

  /** A sandbox has ended: the rows it had fail with it. */
  ended(shard: Shard, running: RunningShard, failure: ShardFailure): void {
    this.#failWith(shard, this.#out.sentTo(running), failure);
  }

  #route(shard: Shard, work: Work, part: ShardSelection, message: MessageOut): void {
    message.expectAnswer();
    if (shard.running === null) {
      message.taken();
      if (work.op === "step") this.#failWith(shard, this.#rowsOf(part), shard.failure ?? unknownFailure);
      else this.#awaitRestart(shard, work, part, message);
    } else if (work.op === "step" && shard.unready !== null) {
      this.#stepRestarted(shard, work, part, message);
      message.taken();
    } else {
      this.#transmit(shard, shard.running, work, this.#rowsOf(part), work.op, work.whole(part), message);
    }
  }

  #awaitRestart(shard: Shard, work: Work, part: ShardSelection, message: MessageOut): void {
    const rows = this.#rowsOf(part);
    whenRestarted(shard, work.hard, this.#core.plan.request.start_timeout * 1000, () => {
      if (this.#core.closing.aborted) return;
      const { running } = shard;
      if (running === null) {
        this.#failWith(shard, rows, shard.failure ?? stillStarting(shard.range));
        return;
      }
      message.expectAnswer();
      this.#transmit(shard, running, work, rows, "reset", work.whole(part), message);
    });
  }

  /** Rows that were reset since are stepped; the others hold their error, or are reset where the autoreset mode wants it. */
  #stepRestarted(shard: Shard, work: Work, part: ShardSelection, message: MessageOut): void {
    const running = shard.running as RunningShard;
    const selected = this.#rowsOf(part);
    const { failing, pending, ready } = splitRestarted(this.#core, shard, selected);
    if (ready.length > 0) {
      const places = new Map(selected.map((row, at) => [row, part.offset + at]));
      const some = work.some(
        ready,
        ready.map((row) => places.get(row) as number),
      );
      message.expectAnswer();
      this.#transmit(shard, running, work, ready, "step", some, message);
    }
    if (pending.length > 0) {
      message.expectAnswer();
      this.#transmit(shard, running, work, pending, "reset", pendingReset(pending, this.#encoding), message);
    }
    if (failing.length > 0) this.#failWith(shard, failing, shard.failure ?? unknownFailure);
  }

  #transmit(
    shard: Shard,
    running: RunningShard,
    work: Work,
    rows: readonly number[],
    as: StreamOperation,
    { head, body }: AgentMessage,
    message: MessageOut,
  ): void {
    shard.episodes += work.episodes;
    this.#out.sent(rows, running, as, work.limitMs);
    this.#watch(shard, running);
    running.agent.send(head, body, (reply) => {
      // Without a reply the sandbox is gone, and its rows fail with it.
      if (reply === null || reply.head.ok === true) message.taken();
      else message.refused(rows, agentError(reply));
    });
  }

  #failWith(shard: Shard, rows: readonly number[], failure: ShardFailure): void {
    const told = new Set(rows.filter((row) => !shard.untold.has(row)));
    for (const row of rows) shard.untold.delete(row);
    this.#fail(rows, failure, (row) => told.has(row));
  }

  #fail(rows: readonly number[], failure: ShardFailure, isRepeated: (row: number) => boolean): void {
    for (const op of ["step", "reset"] as const) {
      const some = rows.filter((row) => this.#out.get(row)?.op === op);
      if (some.length > 0) this.#onFinished(some, failedResult(this.#columns, some, op, failure, isRepeated));
    }
  }

  #rowsOf(part: ShardSelection): readonly number[] {
    return rowsOf(part, this.#core.plan.ranges[part.shard] as RowRange);
  }
}

function refusedFailure(error: Error): ShardFailure {
  return {
    ...unknownFailure,
    kind: "protocol",
    message: `The agent refused its part of the message: ${error.message}`,
  };
}
