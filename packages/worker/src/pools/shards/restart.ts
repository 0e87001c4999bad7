import { setTimeout as delay } from "node:timers/promises";
import { rowsIn } from "../rows/ranges.ts";
import type { Shard } from "./shard.ts";
import { fixLayout, startShard } from "./start.ts";

const attemptDelaysMs = [0, 250, 1000];

/**
 * Starts a dead shard again, three times at most. Its rows stay failed until each is reset; their episodes go on from a number that none of
 * them had reached, so no derived seed comes twice. After the third failure its rows are `lost`.
 */
export async function restartShard(shard: Shard): Promise<void> {
  const { home } = shard;
  let reason = "";
  for (const attemptDelayMs of attemptDelaysMs) {
    try {
      await delay(attemptDelayMs, undefined, { signal: home.closing });
      await startAgain(shard);
      return;
    } catch (error) {
      if (home.closing.aborted) return;
      reason = error instanceof Error ? error.message : String(error);
    }
  }
  const before = shard.failure;
  shard.failure = {
    kind: "lost",
    message: `The sandbox of rows ${shard.range.first} to ${shard.range.first + shard.range.count - 1} could not be started again in ${attemptDelaysMs.length} attempts: ${reason} A hard reset tries once more.`,
    exitCode: before?.exitCode ?? null,
    signal: before?.signal ?? null,
    stderrTail: before?.stderrTail ?? "",
  };
}

async function startAgain(shard: Shard): Promise<void> {
  const { home, index, range } = shard;
  shard.generation += 1;
  const options = {
    index,
    generation: shard.generation,
    seed: home.seed,
    episodeOffset: shard.episodes,
    firstReset: false,
    rowsPerProcess: home.packing.rows_per_process,
  };
  const { running } = await startShard(home.plan, options, home.closing, () => {});
  try {
    await fixLayout(running, home.layout, home.closing);
  } catch (error) {
    await running.sandbox.kill();
    throw error;
  }
  shard.unready = new Set(rowsIn(range));
  shard.adopt(running);
}
