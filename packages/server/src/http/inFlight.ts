/** Requests that have no answer yet, so that a stop lets their answers out before connections are cut. */
export class InFlight {
  #count = 0;
  #onIdle: (() => void) | null = null;

  enter(): void {
    this.#count += 1;
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count === 0) this.#onIdle?.();
  }

  /** Resolves when nothing is in flight, or after the time. */
  async drained(timeoutMs: number): Promise<void> {
    if (this.#count === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
