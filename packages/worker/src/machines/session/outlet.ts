import { WINDOW_BYTES } from "./inlet.ts";

/** Most bytes of one frame. */
const FRAME_BYTES = 64 * 1024;

/** How an outlet's frames reach the channel. */
export interface OutletFrames {
  /** Resolves once the channel takes more; at once where it has room. */
  data(stream: number, bytes: Buffer): Promise<void> | null;
  end(stream: number): void;
  fail(stream: number, message: string): void;
}

/** The sending end of a stream to a machine: sends no more than the receiver has room for. */
export class Outlet {
  readonly id: number;
  readonly #frames: OutletFrames;
  #creditBytes = WINDOW_BYTES;
  #isOpen = true;
  #failure: Error | null = null;
  #onCredit: (() => void) | null = null;
  readonly #onClose = new Set<() => void>();

  constructor(id: number, frames: OutletFrames) {
    this.id = id;
    this.#frames = frames;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Why nothing can be sent any more, where that is the connection's fault and not the receiver's wish. */
  get failure(): Error | null {
    return this.#failure;
  }

  /** One call at a time. Resolves when all of it was sent; false when the receiver, or the connection, takes no more. */
  async write(bytes: Buffer): Promise<boolean> {
    for (let at = 0; at < bytes.length; ) {
      if (!this.#isOpen) return false;
      const count = Math.min(bytes.length - at, FRAME_BYTES, this.#creditBytes);
      if (count === 0) {
        await new Promise<void>((resolve) => {
          this.#onCredit = resolve;
        });
        continue;
      }
      this.#creditBytes -= count;
      const full = this.#frames.data(this.id, bytes.subarray(at, at + count));
      if (full !== null) await full;
      at += count;
    }
    return this.#isOpen;
  }

  /** Everything was sent. */
  end(): void {
    if (!this.#isOpen) return;
    this.#frames.end(this.id);
    this.close();
  }

  /** The source broke: what was sent is no whole. */
  fail(message: string): void {
    if (!this.#isOpen) return;
    this.#frames.fail(this.id, message.slice(0, 1000));
    this.close();
  }

  addCredit(bytes: number): void {
    this.#creditBytes += bytes;
    this.#wake();
  }

  /** Nobody takes any more, or nothing more comes. */
  close(failure: Error | null = null): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#failure = failure;
    this.#wake();
    for (const tell of this.#onClose) tell();
    this.#onClose.clear();
  }

  /** @returns takes the listener away again */
  whenClosed(listener: () => void): () => void {
    if (!this.#isOpen) queueMicrotask(listener);
    else this.#onClose.add(listener);
    return () => this.#onClose.delete(listener);
  }

  #wake(): void {
    const wake = this.#onCredit;
    this.#onCredit = null;
    wake?.();
  }
}
