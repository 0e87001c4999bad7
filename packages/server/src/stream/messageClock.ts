import type { Duplex } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type { ServerLimits } from "../options.ts";
import { FrameProgress } from "./frameProgress.ts";

/** Ends a connection whose client began a message and does not end it, as HTTP bodies end that stand still or drip. */
export class MessageClock {
  readonly #progress = new FrameProgress();
  readonly #limits: Pick<ServerLimits, "bodyIdleMs" | "requestTimeoutMs">;
  readonly #onLate: (error: SandpoolError) => void;
  #timer: NodeJS.Timeout | undefined;
  #begunAtMs = 0;
  #isStopped = false;

  constructor(transport: Duplex, limits: ServerLimits, onLate: (error: SandpoolError) => void) {
    this.#limits = limits;
    this.#onLate = onLate;
    transport.on("data", (chunk: Buffer) => this.#feed(chunk));
  }

  /** While the server itself reads nothing, no client is late. */
  pause(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  resume(): void {
    if (this.#isStopped || !this.#progress.isInMessage) return;
    this.#begunAtMs = performance.now();
    this.#arm();
  }

  stop(): void {
    this.#isStopped = true;
    this.pause();
  }

  #feed(chunk: Buffer): void {
    if (this.#isStopped) return;
    const wasInMessage = this.#progress.isInMessage;
    const ended = this.#progress.feed(chunk);
    if (!this.#progress.isInMessage) {
      this.pause();
      return;
    }
    if (ended || !wasInMessage) this.#begunAtMs = performance.now();
    const { requestTimeoutMs } = this.#limits;
    if (performance.now() - this.#begunAtMs > requestTimeoutMs) {
      this.#onLate(late(`is not whole after ${requestTimeoutMs} ms`, requestTimeoutMs));
    } else this.#arm();
  }

  #arm(): void {
    const { bodyIdleMs } = this.#limits;
    if (this.#timer !== undefined) this.#timer.refresh();
    else this.#timer = setTimeout(() => this.#onLate(late(`stood still for ${bodyIdleMs} ms`, bodyIdleMs)), bodyIdleMs);
  }
}

function late(what: string, limitMs: number): SandpoolError {
  return new SandpoolError("request_timeout", `a message that had begun ${what}`, {
    hint: "open the stream again: nothing of its session is lost",
    details: { limit_ms: limitMs },
  });
}
