/** How long a foreground exec with an Idempotency-Key goes on when nobody waits for it any more. */
const COME_BACK_MS = 60_000;

/** Who waits for which foreground exec, so that one that nobody waits for is ended. */
export class Attendance {
  readonly #waiting = new Map<string, { count: number; timer: NodeJS.Timeout | null }>();

  /** Somebody waits for it now. */
  enter(execKey: string): void {
    const known = this.#waiting.get(execKey) ?? { count: 0, timer: null };
    if (known.timer !== null) clearTimeout(known.timer);
    this.#waiting.set(execKey, { count: known.count + 1, timer: null });
  }

  /**
   * Somebody waits no more. `abandoned` is called when nobody is left and nobody comes in time; never where the exec has ended.
   * @param canComeBack the caller has a key by which to ask again
   */
  leave(execKey: string, how: { hasEnded: boolean; canComeBack: boolean; abandoned: () => void }): void {
    const known = this.#waiting.get(execKey);
    if (known === undefined) return;
    known.count -= 1;
    if (known.count > 0) return;
    if (known.timer !== null) clearTimeout(known.timer);
    if (how.hasEnded || !how.canComeBack) {
      this.#waiting.delete(execKey);
      if (!how.hasEnded) how.abandoned();
      return;
    }
    known.timer = setTimeout(() => {
      this.#waiting.delete(execKey);
      how.abandoned();
    }, COME_BACK_MS).unref();
  }
}
