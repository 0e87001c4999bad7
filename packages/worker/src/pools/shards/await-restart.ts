import type { Shard } from "./shard.ts";

/**
 * Calls `settle` once, when a shard that is down runs again, or will not within the limit. A hard wish starts it again even when that was
 * given up.
 */
export function whenRestarted(shard: Shard, hard: boolean, limitMs: number, settle: () => void): void {
  // A sandbox that is still being cleared away starts the restart itself when it is done.
  const restarting = shard.dying.then(
    () => shard.restarting ?? (hard && shard.running === null ? shard.restart() : undefined),
  );
  let isSettled = false;
  const once = (): void => {
    if (isSettled) return;
    isSettled = true;
    clearTimeout(timer);
    settle();
  };
  const timer = setTimeout(once, limitMs);
  void restarting.then(once, once);
}
