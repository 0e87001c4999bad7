import type { PoolCore } from "./core.ts";

/** When the pool closes unless something asks for it before. */
export function leaseEnd(core: PoolCore): Date {
  return new Date(core.lastUsedMs + core.plan.request.lease * 1000);
}

/**
 * Calls `onExpired` once the pool was not asked for anything for its lease time. One timer that looks at the last use when it fires: a
 * request only notes the time. A running batch is use, and so are rows that are out.
 */
export function watchLease(core: PoolCore, onExpired: () => void): void {
  const check = (): void => {
    const leftMs = core.turn.busy ? minimumWaitMs : leaseEnd(core).getTime() - Date.now();
    if (leftMs <= 0) onExpired();
    else arm(leftMs);
  };
  const arm = (waitMs: number): void => {
    timer = setTimeout(check, Math.min(Math.max(waitMs, minimumWaitMs), longestTimerMs));
    timer.unref();
  };
  let timer: NodeJS.Timeout;
  arm(core.plan.request.lease * 1000);
  core.closing.addEventListener("abort", () => clearTimeout(timer), { once: true });
}

const minimumWaitMs = 50;
/** Node's timers overflow at 2^31 milliseconds. */
const longestTimerMs = 2 ** 31 - 1;
