/** Limits of a wait. */
export interface WaitLimits {
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Waits for a promise, at most until `timeoutMs` have passed (throws what `late` makes) or the signal aborts (throws its reason). Leaves no timer or listener. */
export async function waitFor<Result>(
  promise: Promise<Result>,
  { timeoutMs, signal }: WaitLimits,
  late: () => Error,
): Promise<Result> {
  signal?.throwIfAborted();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const timer = timeoutMs === undefined ? null : setTimeout(() => reject(late()), timeoutMs);
  const abort = (): void => reject(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, ended]);
  } finally {
    if (timer !== null) clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}
