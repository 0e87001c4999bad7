import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, errorFromWire, SandpoolError } from "../errors.ts";
import { parseJson } from "../values/json.ts";
import type { Part } from "./results.ts";
import type { Session } from "./session.ts";
import { BrokenStreamError, StreamSocket, type StreamTarget } from "./socket.ts";

/** Where a stream's results go. */
export interface Receiver {
  /** Takes the rows of one message. */
  deliver(part: Part): void;
  /** Takes the refusal of a message; its rows are out no longer. */
  refuse(rows: readonly number[], error: SandpoolError): void;
  /** Takes a failure; `isFinal`: nothing is out any longer, else everything that was still is. */
  fail(error: SandpoolError, isFinal: boolean): void;
}

export interface StreamOptions {
  target: StreamTarget;
  session: Session;
  receiver: Receiver;
  /** Finds out what became of a batch whose fate is unknown, before anything is sent. */
  settle: () => Promise<void>;
  /** How long the pool may be silent while rows are out. */
  silenceMs: number;
}

const PAUSES_MS = [0, 50, 200, 500, 1000, 2000, 4000];
const STEADY_MS = 10_000;

/** Carries a session over one WebSocket after another: opens, resumes, sends what waits, and takes in what comes. */
export class Stream {
  readonly #options: StreamOptions;
  readonly #session: Session;
  readonly #receiver: Receiver;
  readonly #ending = new AbortController();
  #running: Promise<void> | null = null;
  #socket: StreamSocket | null = null;
  #isOpen = false;
  #isFlushing = false;
  #failures = 0;
  #watch: NodeJS.Timeout | null = null;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#session = options.session;
    this.#receiver = options.receiver;
  }

  /** Sends what waits, over a new connection if there is none; what was put in one turn of the event loop goes together. */
  wake(): void {
    if (this.#ending.signal.aborted) return;
    this.#watchSilence();
    if (this.#running !== null) {
      this.#flushSoon();
      return;
    }
    this.#failures = 0;
    this.#running = this.#run().finally(() => {
      this.#running = null;
    });
  }

  /** Closes the connection and waits until it is closed; what is out stays with the pool. */
  async close(): Promise<void> {
    this.#ending.abort();
    if (this.#watch !== null) clearTimeout(this.#watch);
    this.#socket?.close();
    await this.#running;
  }

  /** Goes on until a connection breaks while nothing is under way, or the stream has failed. */
  async #run(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      const error = await this.#carry();
      if (this.#ending.signal.aborted) return;
      if (error instanceof BrokenStreamError || error instanceof ConnectionError) {
        if (!this.#session.isBusy) return;
        if (this.#failures === PAUSES_MS.length) return this.#giveUp(error);
        await sleep(PAUSES_MS[this.#failures], undefined, { signal: this.#ending.signal }).catch(() => undefined);
        this.#failures += 1;
      } else if (!this.#beginAnew(error)) return this.#receiver.fail(asSandpoolError(error), true);
    }
  }

  /** Opens one connection and uses it to its end: why it ended. */
  async #carry(): Promise<Error> {
    const { target } = this.#options;
    const openedAtMs = performance.now();
    const socket: StreamSocket = new StreamSocket(
      target,
      this.#session.name,
      this.#session.received,
      (data, isBinary) => this.#take(socket, data, isBinary),
    );
    this.#socket = socket;
    const error = await socket.ended;
    this.#socket = null;
    this.#isOpen = false;
    if (performance.now() - openedAtMs > STEADY_MS) this.#failures = 0;
    // Nobody listens on the unix socket: TCP says what is wrong.
    if (error instanceof BrokenStreamError && error.isUnreachable) target.endpoint.socketPath = null;
    return error;
  }

  #take(socket: StreamSocket, data: Buffer, isBinary: boolean): void {
    if (isBinary && this.#isOpen) this.#takeResult(data);
    else if (isBinary) throw unexpected(`${data.length} bytes before the event open`);
    else this.#takeEvent(socket, data.toString("utf8"));
    socket.hold(this.#session.isBusy);
  }

  #takeResult(data: Buffer): void {
    const part = this.#session.feed(data);
    if (part === null) return;
    this.#failures = 0;
    this.#receiver.deliver(part);
  }

  #takeEvent(socket: StreamSocket, text: string): void {
    const event = parseJson(text) as Record<string, unknown> | null;
    const { accepted, next_result: nextResult, number } = event ?? {};
    if (event?.event === "error") socket.lastWords = event;
    else if (event?.event === "open" && !this.#isOpen && typeof accepted === "number") {
      const unsent = this.#session.resume(accepted, Number(nextResult));
      this.#isOpen = true;
      for (const { data } of unsent) socket.send(data);
      this.#flushSoon();
    } else if (event?.event === "refused" && this.#isOpen && typeof number === "number") {
      const rows = this.#session.refuse(number);
      if (rows.length > 0) this.#receiver.refuse(rows, errorFromWire(400, event));
      else this.#flushSoon();
    } else throw unexpected(text.slice(0, 200));
  }

  #flushSoon(): void {
    if (!this.#isOpen || this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => {
      this.#flush().catch((error: unknown) => this.#socket?.break(error as Error));
    });
  }

  async #flush(): Promise<void> {
    try {
      // With nothing to be sent a batch may run.
      if (this.#session.isWaiting) await this.#options.settle();
    } finally {
      this.#isFlushing = false;
    }
    const socket = this.#socket;
    if (socket === null || !this.#isOpen) return;
    for (const { data } of this.#session.pack()) socket.send(data);
    socket.hold(this.#session.isBusy);
  }

  /** Whether another session took the place of ours while nothing of ours was out: then a new one of ours may take its. */
  #beginAnew(error: Error): boolean {
    const wasTaken = error instanceof SandpoolError && error.status === 409;
    if (!wasTaken || !this.#session.isReplaceable) return false;
    this.#session.renew();
    return true;
  }

  #giveUp(error: Error): void {
    const { endpoint } = this.#options.target;
    const failure = new ConnectionError(
      `The stream to ${endpoint.url} broke or could not be opened ${this.#failures} times in a row: ${error.message}.`,
      {
        cause: error,
        hint: `Does the server run ("sandpool doctor"), and does a proxy between know WebSockets? What is out is not lost: ask again.`,
      },
    );
    this.#receiver.fail(failure, false);
  }

  #watchSilence(): void {
    const { silenceMs } = this.#options;
    if (this.#watch !== null || !this.#session.isBusy) return;
    const leftMs = silenceMs - (performance.now() - this.#session.lastSignMs);
    this.#watch = setTimeout(() => this.#checkSilence(), Math.max(leftMs, 1000));
    this.#watch.unref();
  }

  #checkSilence(): void {
    this.#watch = null;
    const silentMs = performance.now() - this.#session.lastSignMs;
    if (!this.#session.isBusy) return;
    if (silentMs < this.#options.silenceMs) {
      this.#watchSilence();
      return;
    }
    const seconds = Math.round(silentMs / 1000);
    const message = `The pool said nothing for ${seconds} s, longer than its deadlines can add up to.`;
    const hint = "Is the server's machine overloaded or stopped? What is out is not lost: ask again.";
    this.#receiver.fail(new ConnectionError(message, { hint }), false);
  }
}

function asSandpoolError(error: Error): SandpoolError {
  if (error instanceof SandpoolError) return error;
  return new SandpoolError("protocol_violation", `The stream broke down: ${error.message}.`, { cause: error });
}

function unexpected(received: string): SandpoolError {
  return new SandpoolError(
    "protocol_violation",
    `The stream sent ${received}; expected a result, a refusal or an error.`,
    {
      hint: "Update the client and the server to the same version.",
    },
  );
}
