import type { SandpoolError } from "@sandpool/protocol";
import type { AgentReply } from "../../agent/channel.ts";
import { DriverError } from "../../drivers/driver.ts";
import type { MachineDriver, MachineExit, ShimConnection } from "../../drivers/machine.ts";
import { sleep } from "../../host/concurrency.ts";
import { type AskOptions, MachineChannel } from "./channel.ts";
import { ConnectionLost, connectionBroken, isLost, machineLost, sessionClosed } from "./errors.ts";

const FIRST_RETRY_MS = 20;
const LAST_RETRY_MS = 2000;
/** A connection that lasted so long was a good one: the next one is made at once. */
const GOOD_MS = 5000;
/** So long a call waits for a connection that does not come back. */
const PATIENCE_MS = 20_000;

export interface SessionOptions {
  driver: Pick<MachineDriver, "adopt">;
  warn: (message: string) => void;
}

/** A machine as its server knows it: one connection after another to its shim, until it has ended. */
export class MachineSession {
  readonly id: string;
  /** Resolves when the machine has ended. */
  readonly ended: Promise<MachineExit>;
  readonly startedAt: number;
  /** What the agent told of itself, at last. */
  agent: Readonly<Record<string, unknown>>;
  /** Saves under way: the machine stands still, and nothing it does not answer is late. */
  pauses = 0;
  readonly #options: SessionOptions;
  #channel: MachineChannel | null = null;
  #takenAt = 0;
  #delayMs = 0;
  #next = Promise.withResolvers<void>();
  #exit: MachineExit | null = null;
  #closed: SandpoolError | null = null;
  readonly #resolveEnded: (exit: MachineExit) => void;

  constructor(connection: ShimConnection, options: SessionOptions) {
    this.id = connection.id;
    this.agent = connection.agent;
    this.startedAt = connection.shim.started_at ?? Date.now();
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<MachineExit>();
    this.ended = promise;
    this.#resolveEnded = resolve;
    this.#take(connection);
  }

  /**
   * A question that may be asked twice: after a broken connection it is asked again.
   * @throws the agent's own error, `machine_lost`, `deadline_passed`, `agent_failed` when no connection comes back
   */
  async ask(head: Readonly<Record<string, unknown>>, options: AskOptions = {}): Promise<AgentReply> {
    return await this.again(String(head.op), (channel) => channel.ask(head, this.#timed(options)));
  }

  /** A request whose repetition would not be the same: a broken connection is an error that says so. */
  async askOnce(head: Readonly<Record<string, unknown>>, options: AskOptions = {}): Promise<AgentReply> {
    return await this.once(String(head.op), (channel) => channel.ask(head, this.#timed(options)));
  }

  /** Does `work` on a connection, on the next one too where it breaks. */
  async again<Result>(operation: string, work: (channel: MachineChannel) => Promise<Result>): Promise<Result> {
    for (;;) {
      const channel = await this.#connected(operation);
      try {
        return await work(channel);
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
      }
    }
  }

  /** Does `work` on a connection, once. */
  async once<Result>(operation: string, work: (channel: MachineChannel) => Promise<Result>): Promise<Result> {
    const channel = await this.#connected(operation);
    try {
      return await work(channel);
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      // Whether the machine has ended is known once somebody has looked.
      await this.#connected(operation);
      throw connectionBroken(this.id, operation, "Whether it was done is not known: look, then ask again.");
    }
  }

  /** TERM to all programs, KILL after `ms`. */
  async stop(ms: number): Promise<MachineExit> {
    const asked = this.ask({ op: "shim.stop", ms }, { timeoutMs: null }).catch((error: unknown) => {
      if (!isLost(error)) throw error;
    });
    return await Promise.race([this.ended, asked.then(() => this.ended)]);
  }

  /** Lets go of it. `removal`: it ends now, and `ended` is told when that is done. */
  close(removal: Promise<void> | null): void {
    if (this.#closed !== null) return;
    this.#closed = sessionClosed(this.id, removal !== null);
    this.#channel?.close();
    this.#channel = null;
    this.#next.resolve();
    void removal?.then(
      () => this.#finish({ code: null, signal: "KILL", oom_killed: false, started: true, at: Date.now() }),
      () => undefined,
    );
  }

  #timed(options: AskOptions): AskOptions {
    return { isPaused: () => this.pauses > 0, ...options };
  }

  async #connected(operation: string): Promise<MachineChannel> {
    for (const until = performance.now() + PATIENCE_MS; ; ) {
      if (this.#exit !== null) throw machineLost(this.id, this.#exit, operation);
      if (this.#closed !== null) throw this.#closed;
      if (this.#channel?.isOpen === true) return this.#channel;
      const leftMs = until - performance.now();
      if (leftMs <= 0) throw connectionBroken(this.id, operation, "It is taken up again in the background: try later.");
      await this.#news(leftMs);
    }
  }

  async #news(limitMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([this.#next.promise, late]).finally(() => clearTimeout(timer));
  }

  #tell(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers();
  }

  #take(connection: ShimConnection): void {
    const channel = new MachineChannel(this.id, connection.socket, () => this.#whyStreamsEnd());
    channel.onEvent = (head) => {
      if (head.event === "exit") this.#finish(readExit(head));
    };
    this.agent = connection.agent;
    this.#channel = channel;
    this.#takenAt = performance.now();
    this.#tell();
    void channel.ended.then(() => {
      if (this.#channel === channel) this.#channel = null;
      if (this.#exit === null && this.#closed === null) void this.#reconnect();
    });
  }

  /** The shim was killed, or another server spoke to it. */
  async #reconnect(): Promise<void> {
    // An agent that breaks each connection must not keep the server busy.
    const isGood = performance.now() - this.#takenAt > GOOD_MS;
    this.#delayMs = isGood ? 0 : Math.min(Math.max(this.#delayMs * 2, 1), LAST_RETRY_MS);
    await sleep(this.#delayMs);
    // Whoever takes a machine over wakes it: a save would read a disk that changes.
    while (this.pauses > 0) await sleep(FIRST_RETRY_MS);
    for (let delayMs = FIRST_RETRY_MS; this.#closed === null; delayMs = Math.min(delayMs * 2, LAST_RETRY_MS)) {
      try {
        const found = await this.#options.driver.adopt(this.id);
        if ("at" in found) return this.#finish(found);
        if (this.#closed === null) this.#take(found);
        else found.socket.destroy();
        return;
      } catch (error) {
        if (error instanceof DriverError && error.code === "machine_unknown") return this.#finish(unknownExit());
        if (delayMs === FIRST_RETRY_MS) {
          this.#options.warn(`machine ${this.id} is not connected: ${(error as Error).message}`);
        }
        await sleep(delayMs);
      }
    }
  }

  #whyStreamsEnd(): SandpoolError {
    if (this.#exit !== null) return machineLost(this.id, this.#exit, "stream");
    if (this.#closed !== null) return this.#closed;
    return connectionBroken(this.id, "stream", "Attach again: what a program writes meanwhile is kept.");
  }

  #finish(exit: MachineExit): void {
    if (this.#exit !== null) return;
    this.#exit = exit;
    this.#resolveEnded(exit);
    this.#tell();
  }
}

function readExit(head: Record<string, unknown>): MachineExit {
  // The shim's own words: it passes on none of the agent's that look like them.
  const { code, signal, oom_killed, started, stderr, at } = head as unknown as MachineExit;
  return { code, signal, oom_killed, started, at, ...(stderr === undefined ? {} : { stderr }) };
}

/** Somebody took all that told of it. */
function unknownExit(): MachineExit {
  return { code: null, signal: null, oom_killed: false, started: true, at: Date.now() };
}
