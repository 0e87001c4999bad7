import type { SandpoolError, UncopiedSource } from "@sandpool/protocol";
import { agentError } from "../../agent/channel.ts";
import type { PoolCore } from "../core.ts";
import type { ShardFailure } from "../shards/failure.ts";
import type { Shard } from "../shards/shard.ts";
import type { RunningShard } from "../shards/start.ts";
import type { BranchPart } from "./pairs.ts";
import { readSources, refuseSources, uncopied } from "./refuse.ts";
import { type StateRecord, statesLost } from "./states.ts";

export type BranchKind = "fork" | "save" | "restore";

/** A part whose copies an agent holds. */
export interface HeldPart extends BranchPart {
  running: RunningShard;
}

export interface BranchRequest {
  kind: BranchKind;
  parts: readonly BranchPart[];
  /** Whether the agents derive the copies' seeds. */
  isDerived: boolean;
  /** What a source is to the client: a row, or for `restore` the state in a slot. */
  stateOf: (shard: Shard, slot: number) => StateRecord | undefined;
}

/** Why a shard holds nothing: its agent's refusal, or its sandbox's end. */
interface NotHeld {
  part: BranchPart;
  error: SandpoolError | null;
  failure: ShardFailure | null;
}

/**
 * The first phase: every shard concerned makes its copies and holds them. Where one cannot, the others let theirs go again.
 * @throws `fork_unsupported` with all sources, `state_lost`, or what an agent refused otherwise; then no row and no state has changed
 */
export async function holdCopies(core: PoolCore, request: BranchRequest): Promise<HeldPart[]> {
  const asked = await Promise.all(request.parts.map((part) => holdPart(core, request, part)));
  const outcomes = await Promise.all(asked.map(stillHeld));
  const held = outcomes.filter((outcome) => "running" in outcome);
  const others = outcomes.filter((outcome) => "error" in outcome);
  if (others.length === 0 && !core.closing.aborted) return held;
  await Promise.all(held.map((part) => letGo(core, part)));
  throw refusal(request, others);
}

/** Ends what an agent holds. One that cannot is of no use any more: its sandbox is ended. */
export function letGo(core: PoolCore, { shard, running }: HeldPart): Promise<void> {
  return new Promise((resolve) => {
    watch(core, shard);
    running.agent.send('{"op":"unsettle"}', null, (reply) => {
      shard.hopelessAtMs = 0;
      if (reply !== null && reply.head.ok !== true) {
        const message = `The agent could not give up copies that it held: ${agentError(reply).message}`;
        shard.kill({ kind: "protocol", message, exitCode: null, signal: null, stderrTail: "" });
      }
      resolve();
    });
  });
}

/** Bounds the silence of an agent that was asked for a copy. */
export function watch(core: PoolCore, shard: Shard): void {
  shard.hopelessAtMs = performance.now() + branchLimitMs(core);
}

/** A target may wait for a replacement's start, a copy for its own. */
export function branchLimitMs(core: PoolCore): number {
  const { start_timeout, reset_timeout } = core.plan.request;
  return core.limitMs(start_timeout, start_timeout, reset_timeout);
}

function holdPart(core: PoolCore, request: BranchRequest, part: BranchPart): Promise<HeldPart | NotHeld> {
  const { shard, pairs } = part;
  const { running } = shard;
  const ended = (by: RunningShard | null): Promise<NotHeld> =>
    (by === null ? Promise.resolve(shard.failure) : shard.death(by)).then((failure) => ({
      part,
      error: null,
      failure,
    }));
  if (running === null) return ended(null);
  const seeds = pairs.some(({ seed }) => seed !== null) ? pairs.map(({ seed }) => seed) : null;
  const head = {
    op: "branch",
    kind: request.kind,
    pairs: pairs.map(({ source, target }) => [source, target]),
    reseed: seeds,
    reseed_derived: request.isDerived,
  };
  return new Promise((resolve) => {
    watch(core, shard);
    running.agent.send(JSON.stringify(head), null, (reply) => {
      shard.hopelessAtMs = 0;
      if (reply === null) resolve(ended(running));
      else if (reply.head.ok === true) resolve({ ...part, running });
      else resolve({ part, error: agentError(reply), failure: null });
    });
  });
}

/** A sandbox may have ended while others still made their copies. */
async function stillHeld(outcome: HeldPart | NotHeld): Promise<HeldPart | NotHeld> {
  if ("error" in outcome || outcome.shard.running === outcome.running) return outcome;
  const { shard, running } = outcome;
  const failure = shard.running === null ? await shard.death(running) : shard.failure;
  return { part: outcome, error: null, failure };
}

function refusal(request: BranchRequest, others: readonly NotHeld[]): Error {
  const odd = others.find(({ error }) => error !== null && error.code !== "fork_unsupported")?.error;
  if (odd !== undefined && odd !== null) return odd;
  const lost = others.filter(({ error }) => error === null).flatMap(({ part }) => statesOf(request, part));
  if (lost.length > 0) return statesLost(lost);
  return refuseSources(others.flatMap((other) => sourcesOf(request, other)));
}

function sourcesOf(request: BranchRequest, { part, error, failure }: NotHeld): readonly UncopiedSource[] {
  const sources = [...new Set(part.pairs.map(({ source }) => source))];
  const describe = (blocker: Record<string, unknown>): UncopiedSource[] =>
    sources.map((source) => {
      const state = request.stateOf(part.shard, source);
      return uncopied(state === undefined ? { row: source } : { state: state.id }, [blocker]);
    });
  if (error === null) return describe({ failed: failure?.kind ?? "crash" });
  return readSources(error, (slot) => request.stateOf(part.shard, slot)?.id, describe({ other: error.message }));
}

function statesOf(request: BranchRequest, part: BranchPart): StateRecord[] {
  const states = part.pairs.map(({ source }) => request.stateOf(part.shard, source));
  return [...new Set(states.filter((state) => state !== undefined))];
}
