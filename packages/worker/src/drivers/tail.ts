import type { Readable } from "node:stream";
import { escapeForLog } from "./escape.ts";

/** Keeps the last `limitBytes` of what streams deliver, in order of arrival, in bounded memory. */
export class Tail {
  readonly #limitBytes: number;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(limitBytes = 64 * 1024) {
    this.#limitBytes = limitBytes;
  }

  follow(stream: Readable): void {
    stream.on("data", (chunk: Buffer) => this.append(chunk));
    stream.on("error", () => undefined);
  }

  append(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    // Twice the limit before a copy: a flood costs one copy of the limit for each limit's worth of bytes.
    if (this.#bytes > 2 * this.#limitBytes || this.#chunks.length > 4096) this.#compact();
  }

  /** Escaped for logs. */
  text(): string {
    this.#compact();
    return escapeForLog(this.#chunks[0] ?? Buffer.alloc(0));
  }

  #compact(): void {
    const whole = Buffer.concat(this.#chunks);
    // A copy, so that the large buffer behind the slice is freed.
    this.#chunks = [Buffer.from(whole.subarray(Math.max(0, whole.length - this.#limitBytes)))];
    this.#bytes = this.#chunks[0]?.length ?? 0;
  }
}
