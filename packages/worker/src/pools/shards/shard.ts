import type { Layout, Packing } from "@sandpool/protocol";
import type { States } from "../branching/states.ts";
import type { PoolPlan } from "../plan.ts";
import { type RowRange, rowsIn } from "../rows/ranges.ts";
import type { PoolStream } from "../stream/stream.ts";
import type { ShardFailure } from "./failure.ts";
import { restartShard } from "./restart.ts";
import { explainDeath, type RunningShard } from "./start.ts";

/** What a shard needs to know of its pool to start again. */
export interface ShardHome {
  readonly plan: PoolPlan;
  readonly layout: Layout;
  readonly packing: Packing;
  /** The pool's seed of this moment. */
  readonly seed: number;
  /** Takes the events of the shards' agents. */
  readonly stream: Pick<PoolStream, "receive">;
  /** Is told of saved states that ended. */
  readonly states: Pick<States, "receive" | "ended">;
  /** Aborted when the pool closes. */
  readonly closing: AbortSignal;
}

const shortLifeMs = 5000;
const mostShortLives = 5;

/** One sandbox of a pool, replaced in the background when it dies. */
export class Shard {
  readonly index: number;
  readonly range: RowRange;
  readonly home: ShardHome;
  /** Null while it is down. */
  running: RunningShard | null;
  /** Why its rows fail: while it is down, and after a restart for each row until it is reset. */
  failure: ShardFailure | null = null;
  /** Rows not reset since the restart; null when there are none. */
  unready: Set<number> | null = null;
  /** Rows whose failure with the sandbox no reply has told yet. */
  untold: Set<number> = new Set();
  /** At least as many resets as any of its rows had since the pool's seed was set. */
  episodes = 1;
  generation = 0;
  /** When the batch it is handling becomes hopeless, by `performance.now()`; 0 when it handles none. */
  hopelessAtMs = 0;
  /** Resolves when a restart has come to an end, either way; null when none runs. */
  restarting: Promise<void> | null = null;
  /** Resolves when the sandbox that runs, or ran last, has ended and was cleared away. */
  dying: Promise<void> = Promise.resolve();
  /** The death of the sandbox that ran last. */
  #death: Promise<ShardFailure> | null = null;
  #killedAs: ShardFailure | null = null;
  #adoptedAtMs = 0;
  /** Sandboxes that ended soon after their start, one after another. */
  #shortLives = 0;

  constructor(index: number, home: ShardHome, running: RunningShard) {
    this.index = index;
    this.range = home.plan.ranges[index] as RowRange;
    this.home = home;
    this.running = running;
    this.adopt(running);
  }

  /** Takes a started sandbox and watches it. */
  adopt(running: RunningShard): void {
    this.running = running;
    this.#killedAs = null;
    this.#death = null;
    this.#adoptedAtMs = performance.now();
    running.agent.onEvent = (head, body) => {
      this.home.stream.receive(this, running, head, body);
      this.home.states.receive(running, head);
    };
    this.dying = running.agent.ended.then(() => this.#died(running));
  }

  /** Why the sandbox ended; for those whose reply went missing with it. */
  async death(running: RunningShard): Promise<ShardFailure> {
    if (this.#death === null) {
      this.untold = new Set(rowsIn(this.range));
      this.#death = this.#explain(running);
    }
    return this.#death;
  }

  /** Kills a sandbox that no longer answers; its rows fail with the reason given here. */
  kill(reason: ShardFailure): void {
    const { running } = this;
    if (running === null) return;
    this.#killedAs = reason;
    running.agent.end();
  }

  /** Starts it again unless that is happening already; asked for by a hard reset too, when it was given up before. */
  restart(): Promise<void> {
    this.restarting ??= restartShard(this).finally(() => {
      this.restarting = null;
    });
    return this.restarting;
  }

  async #explain(running: RunningShard): Promise<ShardFailure> {
    return this.#killedAs ?? (await explainDeath(running.sandbox, this.home.plan, this.index));
  }

  async #died(running: RunningShard): Promise<void> {
    this.running = null;
    this.hopelessAtMs = 0;
    // While the pool closes nobody asks why; what `kill` cannot clear away `close` reports.
    const failure = this.home.closing.aborted ? null : await this.death(running);
    this.failure = failure;
    if (failure !== null) this.home.states.ended(running, failure);
    await running.sandbox.kill().catch(() => {});
    if (failure === null || this.home.closing.aborted) return;
    this.#shortLives = performance.now() - this.#adoptedAtMs < shortLifeMs ? this.#shortLives + 1 : 0;
    if (this.#shortLives < mostShortLives) void this.restart();
    else this.#giveUp(failure);
  }

  #giveUp(failure: ShardFailure): void {
    this.#shortLives = 0;
    const message = `${failure.message} It was the ${mostShortLives}th that ended within ${shortLifeMs / 1000} s of its start; a hard reset tries once more.`;
    this.failure = { ...failure, kind: "lost", message };
  }
}

/** Rows that an agent was asked to reset since the restart: from now on it answers for them itself. */
export function markReady(shard: Shard, rows: readonly number[]): void {
  const { unready } = shard;
  if (unready === null) return;
  for (const row of rows) {
    unready.delete(row);
    shard.untold.delete(row);
  }
  if (unready.size > 0) return;
  shard.unready = null;
  shard.failure = null;
}
