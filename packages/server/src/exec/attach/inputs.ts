import { PassThrough } from "node:stream";
import type { LiveMachine } from "@sandpool/worker";

const HELD_BYTES = 256 * 1024;

/** The one way into an exec's standard input, for everybody who is attached to it. */
export class ExecInputs {
  readonly #feeds = new Map<string, Feed>();

  /** `onRefused` hears why the program takes nothing, where it never did. */
  join(execKey: string, live: LiveMachine, id: string, onRefused: (error: unknown) => void): InputShare {
    const known = this.#feeds.get(execKey);
    const feed = known?.isOpen ? known : this.#open(execKey, live, id);
    return feed.join(onRefused);
  }

  #open(execKey: string, live: LiveMachine, id: string): Feed {
    const feed = new Feed(live, id, () => {
      if (this.#feeds.get(execKey) === feed) this.#feeds.delete(execKey);
    });
    this.#feeds.set(execKey, feed);
    return feed;
  }
}

/** One client's part in it. */
export interface InputShare {
  /** False: it is full; `onRoom` is called once it has room. */
  write(bytes: Buffer, onRoom: () => void): boolean;
  /** Closes standard input, for all. */
  end(): void;
  /** The last one that leaves lets it stay open for who comes later. */
  leave(): void;
}

class Feed {
  readonly #source = new PassThrough({ highWaterMark: HELD_BYTES });
  readonly #listeners = new Set<(error: unknown) => void>();
  isOpen = true;

  constructor(live: LiveMachine, id: string, onClose: () => void) {
    this.#source.setMaxListeners(0);
    this.#source.on("error", () => {});
    const close = (): void => {
      this.isOpen = false;
      onClose();
      this.#source.destroy();
    };
    live.writeExecInput(id, this.#source).then(close, (error: unknown) => {
      const wasOpen = this.isOpen;
      close();
      if (wasOpen) for (const tell of this.#listeners) tell(error);
    });
  }

  join(onRefused: (error: unknown) => void): InputShare {
    // Each member its own, though two clients pass one function.
    const listener = (error: unknown): void => onRefused(error);
    this.#listeners.add(listener);
    return {
      write: (bytes, onRoom) => this.#write(bytes, onRoom),
      end: () => {
        if (this.isOpen) this.#source.end();
        this.isOpen = false;
      },
      leave: () => {
        if (!this.#listeners.delete(listener) || this.#listeners.size > 0 || !this.isOpen) return;
        this.isOpen = false;
        this.#source.destroy(new Error("the last client went away"));
      },
    };
  }

  #write(bytes: Buffer, onRoom: () => void): boolean {
    // A program that reads no more is no failure: what comes after is nobody's.
    if (!this.isOpen || this.#source.destroyed) return true;
    if (this.#source.write(bytes)) return true;
    const wake = (): void => {
      this.#source.off("drain", wake).off("close", wake);
      onRoom();
    };
    this.#source.on("drain", wake).on("close", wake);
    return false;
  }
}
