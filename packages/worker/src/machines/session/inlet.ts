import { Readable } from "node:stream";
import type { SandpoolError } from "@sandpool/protocol";
import { ByteQueue } from "./byte-queue.ts";
import { creditPassed } from "./errors.ts";

/** What a sender may send before it hears of the first bytes read. */
export const WINDOW_BYTES = 2 ** 20;
/** Credit is given back in such pieces: the sender always has most of the window left by then. */
const STEP_BYTES = WINDOW_BYTES / 4;

/** What an inlet tells the machine's agent. */
export interface InletEvents {
  credit(stream: number, bytes: number): void;
  cancel(stream: number): void;
}

/** The receiving end of a stream from a machine. Holds at most a window of bytes, however slow its reader. */
export class Inlet {
  readonly id: number;
  /** Called when there is something to take, an end or a failure. */
  onNews: (() => void) | null = null;
  readonly #events: InletEvents;
  readonly #queue = new ByteQueue();
  #end: "open" | "whole" | SandpoolError = "open";
  #owedBytes = 0;

  constructor(id: number, events: InletEvents) {
    this.id = id;
    this.#events = events;
  }

  /** Bytes that came; false when they were more than the credit allows, and the stream has failed. */
  deliver(bytes: Buffer): boolean {
    if (this.#end !== "open") return true;
    if (this.#queue.length + this.#owedBytes + bytes.length > WINDOW_BYTES) {
      this.#events.cancel(this.id);
      this.finish(creditPassed(this.id));
      return false;
    }
    this.#queue.push(bytes);
    this.onNews?.();
    return true;
  }

  /** Nothing comes after what is there. */
  finish(end: "whole" | SandpoolError): void {
    if (this.#end !== "open") return;
    this.#end = end;
    this.onNews?.();
  }

  /** The oldest bytes, or null; whoever takes them is ready for as many more. */
  take(): Buffer | null {
    const bytes = this.#queue.take();
    if (bytes === null || this.#end !== "open") return bytes;
    this.#owedBytes += bytes.length;
    if (this.#owedBytes < STEP_BYTES) return bytes;
    this.#events.credit(this.id, this.#owedBytes);
    this.#owedBytes = 0;
    return bytes;
  }

  /** How it ended, once everything before that was taken. */
  get ended(): "whole" | SandpoolError | null {
    return this.#end === "open" || this.#queue.length > 0 ? null : this.#end;
  }

  /** Nobody reads on. */
  cancel(): void {
    this.#queue.clear();
    if (this.#end !== "open") return;
    this.#end = "whole";
    this.onNews = null;
    this.#events.cancel(this.id);
  }
}

/** An inlet as a stream of bytes. Destroying it cancels the sender. */
export function readableOf(inlet: Inlet): Readable {
  const pull = pullFrom(inlet);
  const stream = new Readable({
    // One piece at a time: what nobody reads waits in the inlet, where it counts against the sender's credit.
    highWaterMark: 1,
    read() {
      pull(this);
    },
    destroy(error, callback) {
      inlet.cancel();
      callback(error);
    },
  });
  // Whoever has it may not listen yet when it breaks: that is no reason for the server to end.
  stream.on("error", () => undefined);
  return stream;
}

/** For the `read` of a stream: hands over a piece, the end or the failure, now or when it comes. */
export function pullFrom(inlet: Inlet): (stream: Readable) => void {
  return (stream) => {
    const give = (): void => {
      const bytes = inlet.take();
      const ended = bytes === null ? inlet.ended : null;
      if (bytes === null && ended === null) return;
      inlet.onNews = null;
      if (bytes !== null) stream.push(bytes);
      else if (ended === "whole") stream.push(null);
      // Not within `read`: the piece that it is about to return would be lost.
      else process.nextTick(() => stream.destroy(ended as SandpoolError));
    };
    inlet.onNews = give;
    give();
  };
}
