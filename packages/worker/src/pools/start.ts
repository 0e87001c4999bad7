import { setMaxListeners } from "node:events";
import type { StartTiming } from "@sandpool/protocol";
import { removeTree } from "../host/remove-tree.ts";
import type { CreateOptions } from "../worker.ts";
import { PoolCore, type PoolForm } from "./core.ts";
import { awaitChoice } from "./packing/await-choice.ts";
import { readVector, resolveAutoreset } from "./packing/vector.ts";
import type { PoolPlan } from "./plan.ts";
import { Shard } from "./shards/shard.ts";
import { fixLayout, type PhaseProgress, type RunningShard, type StartReply, startShard } from "./shards/start.ts";

/** What the first start of a pool told. */
export interface StartReport {
  way: string;
  reason: string | null;
  hello: Record<string, unknown>;
  timing: Omit<StartTiming, "layer_ms" | "total_ms">;
}

/**
 * Starts every shard at once, fixes the form of observations by the proposal of the shard that holds row 0, and makes the pool's state of
 * them. The first failure ends the others; whatever the reason, nothing is left of a start that failed.
 */
export async function startPool(
  plan: PoolPlan,
  seed: number,
  options: CreateOptions,
): Promise<{ core: PoolCore; report: StartReport }> {
  const failing = new AbortController();
  const signal = AbortSignal.any([options.signal, failing.signal]);
  // One listener for each shard, however many there are.
  setMaxListeners(0, signal);
  const progress = sumProgress(plan, options.onProgress);
  const choice = awaitChoice(plan);
  const start = {
    generation: 0,
    seed,
    episodeOffset: 0,
    firstReset: plan.request.first_reset,
    rowsPerProcess: choice.rowsPerProcess ?? choice.packing.then((packing) => packing.rows_per_process),
    onMeasured: choice.onMeasured,
  };
  const starts = plan.ranges.map((_, index) =>
    startShard(plan, { ...start, index }, signal, (phase, done, total) => progress(index, phase, done, total)).catch(
      (error: unknown) => {
        // Only the first reason counts: the others fail because of it.
        if (!failing.signal.aborted) failing.abort(error);
        throw error;
      },
    ),
  );
  const settled = await Promise.allSettled(starts);
  const started = settled.filter((result) => result.status === "fulfilled").map((result) => result.value);
  const running = started.map((shard) => shard.running);
  try {
    signal.throwIfAborted();
    const { layout, hello } = (started[0] as { reply: StartReply }).reply;
    const vector = readVector(hello);
    const autoreset = resolveAutoreset(plan.request.autoreset, vector);
    await Promise.all(running.map((shard) => fixLayout(shard, layout, signal)));
    const form = { layout, packing: await choice.packing, vector, autoreset };
    return { core: makeCore(plan, form, seed, running), report: makeReport(started.map((shard) => shard.reply)) };
  } catch (error) {
    await Promise.all(running.map((shard) => shard.sandbox.kill()));
    if (plan.workspacesFolder !== null) await removeTree(plan.workspacesFolder);
    throw error;
  }
}

function makeCore(plan: PoolPlan, form: PoolForm, seed: number, running: readonly RunningShard[]): PoolCore {
  const core = new PoolCore(plan, form, seed);
  core.shards = running.map((shard, index) => new Shard(index, core, shard));
  return core;
}

function makeReport(replies: readonly StartReply[]): StartReport {
  // Where one shard had to fall back, that is what is worth knowing.
  const telling = replies.find((reply) => reply.reason !== null) ?? replies[0];
  const most = (name: keyof StartReply["timing"]): number =>
    Math.max(0, ...replies.map((reply) => reply.timing?.[name] ?? 0));
  return {
    way: telling?.way ?? "spawn",
    reason: telling?.reason ?? null,
    hello: replies[0]?.hello ?? {},
    timing: { template_ms: most("template_ms"), start_ms: most("start_ms"), reset_ms: most("reset_ms") },
  };
}

function sumProgress(
  plan: PoolPlan,
  onProgress: CreateOptions["onProgress"],
): (index: number, ...progress: Parameters<PhaseProgress>) => void {
  const done = new Map<string, number[]>();
  const shards = plan.ranges.length;
  return (index, phase, count, total) => {
    const counts = done.get(phase) ?? new Array<number>(shards).fill(0);
    done.set(phase, counts);
    counts[index] = count;
    const sum = counts.reduce((a, b) => a + b, 0);
    onProgress?.({ phase, done: sum, total: phase === "template" ? total * shards : plan.request.n });
  };
}
