import { SandpoolError } from "@sandpool/protocol";
import type { PoolCore } from "../core.ts";
import type { Shard } from "../shards/shard.ts";
import type { RunningShard } from "../shards/start.ts";

/**
 * Ends states for good; null: all of them. Waits for a branching batch that runs.
 * @returns the ids that were dropped; those of no state are left out
 */
export async function dropStates(core: PoolCore, ids: readonly string[] | null): Promise<string[]> {
  await core.states.quiet();
  const dropped = core.states.remove(ids ?? core.states.all.map(({ id }) => id));
  const slots = new Map<RunningShard, { shard: Shard; slots: number[] }>();
  for (const { shard, running, slot } of dropped) {
    const group = slots.get(running);
    if (group === undefined) slots.set(running, { shard, slots: [slot] });
    else group.slots.push(slot);
  }
  await Promise.all([...slots].map(([running, group]) => releaseSlots(core, group.shard, running, group.slots)));
  return dropped.map(({ id }) => id);
}

/** Ends what an agent has in these slots; then they are free. Where its sandbox has ended there is nothing left to end. */
export async function releaseSlots(
  core: PoolCore,
  shard: Shard,
  running: RunningShard,
  slots: readonly number[],
): Promise<void> {
  try {
    if (shard.running === running) await running.agent.ask({ op: "drop", slots });
  } catch (error) {
    if (!(error instanceof SandpoolError) || error.code !== "pool_lost") throw error;
  }
  core.states.free(shard, running, slots);
}
