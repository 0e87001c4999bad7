import { setTimeout as delay } from "node:timers/promises";
import { removeTree } from "../host/remove-tree.ts";
import type { PoolCore } from "./core.ts";
import { closeDeadlineMs } from "./plan.ts";
import type { Shard } from "./shards/shard.ts";
import type { RunningShard } from "./shards/start.ts";

/** Beyond the environments' own close deadline, for the agent to kill what is left. */
const graceMs = 1500;

/** Closes every shard, politely unless a batch runs or rows are out, then by force. When it returns nothing of the pool is left on the host. */
export async function closePool(core: PoolCore): Promise<void> {
  const isPolite = !core.turn.busy;
  core.abort.abort();
  core.stream.end();
  const failures = (await Promise.allSettled(core.shards.map((shard) => closeShard(shard, isPolite)))).flatMap(
    (result) => (result.status === "rejected" ? [result.reason as unknown] : []),
  );
  core.turn.forget();
  if (core.plan.workspacesFolder !== null) await removeTree(core.plan.workspacesFolder);
  if (failures.length > 0) throw failures[0];
}

async function closeShard(shard: Shard, isPolite: boolean): Promise<void> {
  await shard.restarting;
  const { running } = shard;
  if (running !== null) await endShard(running, isPolite);
  await shard.dying;
}

async function endShard(running: RunningShard, isPolite: boolean): Promise<void> {
  if (isPolite) {
    const given = new AbortController();
    const closed = running.agent.ask({ op: "close" }).then(
      () => running.sandbox.exited,
      () => {},
    );
    await Promise.race([closed, delay(closeDeadlineMs + graceMs, undefined, { signal: given.signal }).catch(() => {})]);
    given.abort();
  }
  await running.sandbox.kill();
}
