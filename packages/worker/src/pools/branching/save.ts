import type { SaveRequest } from "@sandpool/protocol";
import { type AgentReply, agentError } from "../../agent/channel.ts";
import { fail } from "../../fail.ts";
import type { EncodedBatch } from "../../worker.ts";
import type { PoolCore } from "../core.ts";
import { rowsOf, selectRows } from "../rows/select.ts";
import type { Shard } from "../shards/shard.ts";
import type { RunningShard } from "../shards/start.ts";
import { releaseSlots } from "./drop.ts";
import { type HeldPart, holdCopies, letGo, watch } from "./hold.ts";
import { findUncopied } from "./known-blockers.ts";
import type { BranchPart } from "./pairs.ts";
import { readKept } from "./read-kept.ts";
import { refuseSources } from "./refuse.ts";
import { describeState, type StateRecord } from "./states.ts";
import { takeTurn, Unchanged, unchanged } from "./take-turn.ts";

interface SavePart extends BranchPart {
  running: RunningShard;
}

/** Keeps a copy of each selected row as it is now, or of none. @throws `invalid_request`, `fork_unsupported`, `quota`, `agent_failed` */
export function savePool(core: PoolCore, request: SaveRequest, rawBody: Buffer): Promise<EncodedBatch> {
  const repeated = core.turn.repeated(request.seq, rawBody);
  if (repeated !== null) return repeated;
  const startedMs = performance.now();
  const selection = selectRows(request.where ?? null, core.all, core.plan.ranges);
  const selected = selection.parts.map((part) => {
    const shard = core.shards[part.shard] as Shard;
    return { shard, rows: rowsOf(part, shard.range) };
  });
  const uncopied = findUncopied(
    core,
    selected.flatMap(({ shard, rows }) => rows.map((row) => ({ source: { row }, shard, to: shard }))),
  );
  if (uncopied.length > 0) throw refuseSources(uncopied);
  const parts = takeSlots(core, selected);
  return takeTurn(core, { seq: request.seq, request: rawBody }, async () => {
    const states = await saveParts(core, parts);
    return replyTo(request.seq, states, startedMs);
  });
}

/** Free slots for the rows of each shard, or of none. @throws `quota` */
function takeSlots(core: PoolCore, selected: readonly { shard: Shard; rows: readonly number[] }[]): SavePart[] {
  const parts: SavePart[] = [];
  try {
    for (const { shard, rows } of selected) {
      const running = shard.running as RunningShard;
      const slots = core.states.take(shard, running, rows.length);
      const pairs = rows.map((source, at) => ({ source, target: slots[at] as number, seed: null }));
      parts.push({ shard, running, pairs });
    }
  } catch (error) {
    for (const part of parts) core.states.free(part.shard, part.running, slotsOf(part));
    throw error;
  }
  return parts;
}

async function saveParts(core: PoolCore, parts: readonly SavePart[]): Promise<StateRecord[]> {
  let held: HeldPart[];
  try {
    held = await unchanged(holdCopies(core, { kind: "save", parts, isDerived: false, stateOf: () => undefined }));
  } catch (error) {
    for (const part of parts) core.states.free(part.shard, part.running, slotsOf(part));
    throw error;
  }
  const outcomes = await Promise.all(held.map((part) => settlePart(core, part)));
  const failure = outcomes.find((outcome) => outcome instanceof Error);
  const saved = outcomes.flatMap((outcome) => (outcome instanceof Error ? [] : outcome));
  if (failure === undefined) {
    core.states.order(saved);
    return saved;
  }
  core.states.remove(saved.map(({ id }) => id));
  await Promise.all(held.map((part) => releaseSlots(core, part.shard, part.running, slotsOf(part))));
  throw new Unchanged(failure);
}

/** States are noted at once: the news of their loss may follow the reply. */
function settlePart(core: PoolCore, part: HeldPart): Promise<StateRecord[] | Error> {
  const { shard, running } = part;
  return new Promise((resolve) => {
    watch(core, shard);
    running.lastSequence += 1;
    running.agent.send(`{"op":"settle","seq":${running.lastSequence},"encoding":"json"}`, null, (reply) => {
      shard.hopelessAtMs = 0;
      const outcome = readSettled(core, part, reply);
      if (outcome instanceof Error && reply !== null) void letGo(core, part).then(() => resolve(outcome));
      else resolve(outcome);
    });
  });
}

function readSettled(core: PoolCore, part: HeldPart, reply: AgentReply | null): StateRecord[] | Error {
  const { shard, running, pairs } = part;
  const { first, count } = shard.range;
  const rows = `rows ${first} to ${first + count - 1}`;
  if (reply === null) return notSaved(`the sandbox of ${rows} ended meanwhile`);
  if (reply.head.ok !== true) return notSaved(`the agent of ${rows} answered: ${agentError(reply).message}`);
  const kept = readKept(reply.head.states, pairs);
  if (kept === null) return notSaved(`the agent of ${rows} answered with states that are not those it was asked for`);
  return kept.map((state) => core.states.add(shard, running, state));
}

function notSaved(reason: string): Error {
  return fail("agent_failed", `No state was saved: ${reason}.`, {
    hint: "The number of this batch is free: save again. A row that failed meanwhile tells so in the next batch.",
  });
}

function slotsOf({ pairs }: BranchPart): number[] {
  return pairs.map(({ target }) => target);
}

function replyTo(seq: number, states: readonly StateRecord[], startedMs: number): EncodedBatch {
  const workerMs = Math.round((performance.now() - startedMs) * 1000) / 1000;
  const timing = { worker_ms: workerMs, slowest_ms: 0, slowest_row: null, stragglers: [] };
  const text = Buffer.from(JSON.stringify({ seq, states: states.map(describeState), timing }));
  return {
    contentType: "application/json",
    chunks: [text],
    length: text.length,
    summary: { rows: states.length, stragglers: 0, failures: {} },
  };
}
