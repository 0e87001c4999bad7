import type { PoolCore } from "./core.ts";

const intervalMs = 1000;

/** Kills the sandbox of an agent that has not answered a batch long after every deadline in it: a frozen shard may not freeze the pool. */
export function watchShards(core: PoolCore): void {
  const timer = setInterval(() => {
    const now = performance.now();
    for (const shard of core.shards) {
      const isHopeless = shard.hopelessAtMs !== 0 && shard.hopelessAtMs <= now;
      if (!isHopeless && !core.stream.out.isHopeless(shard.range, now)) continue;
      const { first, count } = shard.range;
      const message = `The agent of rows ${first} to ${first + count - 1} did not answer long after the rows' deadlines; its sandbox was killed.`;
      shard.kill({
        kind: "lost",
        message,
        exitCode: null,
        signal: null,
        stderrTail: shard.running?.sandbox.stderr().slice(-4096) ?? "",
      });
    }
  }, intervalMs);
  timer.unref();
  core.closing.addEventListener("abort", () => clearInterval(timer), { once: true });
}
