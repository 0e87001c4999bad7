/**
 * How much finished output the server holds for replies at one time. Who comes later waits: the output stays in the machine's own memory
 * until then, so that any number of execs at once cost the server no more than this.
 */
export class OutputBudget {
  readonly #limitBytes: number;
  readonly #waiting: { bytes: number; enter: () => void }[] = [];
  #heldBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Resolves with what gives the bytes back. One that is larger than everything has it alone. */
  async take(bytes: number): Promise<() => void> {
    const counted = Math.min(bytes, this.#limitBytes);
    if (this.#waiting.length > 0 || this.#heldBytes + counted > this.#limitBytes) {
      await new Promise<void>((enter) => this.#waiting.push({ bytes: counted, enter }));
    } else {
      this.#heldBytes += counted;
    }
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#heldBytes -= counted;
      this.#letIn();
    };
  }

  #letIn(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#heldBytes + next.bytes > this.#limitBytes) return;
      this.#waiting.shift();
      this.#heldBytes += next.bytes;
      next.enter();
    }
  }
}
