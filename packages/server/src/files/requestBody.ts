import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";

const HELD_BYTES = 256 * 1024;

/**
 * A request's body as a stream of its own, of any length. It fails where the client stands still for too long while bytes are wanted, or breaks
 * off; a receiver that is slow is not the client's fault. Destroying it leaves the connection as it is, so that an answer can still be given.
 */
export class RequestBody extends Readable {
  readonly #request: IncomingMessage;
  readonly #idleMs: number;
  #receivedBytes = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(request: IncomingMessage, idleMs: number) {
    super({ highWaterMark: HELD_BYTES });
    this.#request = request;
    this.#idleMs = idleMs;
    request.on("data", this.#take).once("end", this.#finish).once("close", this.#close).once("error", this.#close);
    request.pause();
    if (request.destroyed && !request.complete) process.nextTick(this.#close);
  }

  override _read(): void {
    this.#arm();
    this.#request.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#disarm();
    const request = this.#request;
    request.off("data", this.#take).off("end", this.#finish).off("close", this.#close).off("error", this.#close);
    // What is still on its way is read past: a connection closed with unread bytes is reset, and the answer with it.
    if (!request.complete) request.resume();
    callback(error);
  }

  readonly #take = (chunk: Buffer): void => {
    this.#receivedBytes += chunk.length;
    if (this.push(chunk)) {
      this.#idle?.refresh();
      return;
    }
    this.#disarm();
    this.#request.pause();
  };

  readonly #finish = (): void => {
    this.#disarm();
    this.push(null);
  };

  readonly #close = (): void => {
    if (!this.#request.complete) this.destroy(brokenOff(this.#receivedBytes));
  };

  #arm(): void {
    this.#idle ??= setTimeout(() => this.destroy(stoodStill(this.#receivedBytes, this.#idleMs)), this.#idleMs);
  }

  #disarm(): void {
    clearTimeout(this.#idle);
    this.#idle = undefined;
  }
}

function brokenOff(receivedBytes: number): SandpoolError {
  return new SandpoolError("request_timeout", `the connection ended after ${receivedBytes} bytes of the body`, {
    hint: "nothing was written; send it again",
  });
}

function stoodStill(receivedBytes: number, idleMs: number): SandpoolError {
  return new SandpoolError("request_timeout", `the body stood still for ${idleMs} ms after ${receivedBytes} bytes`, {
    hint: "nothing was written; send it again",
    details: { received_bytes: receivedBytes, idle_ms: idleMs },
  });
}
