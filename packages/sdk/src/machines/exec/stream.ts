import { Writable } from "node:stream";
import type { Attached, ExecRequest, Terminal, ExecOutcome as WireOutcome } from "@sandpool/protocol";
import { SandpoolError } from "../../errors.ts";
import { openWebSocket } from "../../http/webSocket.ts";
import { ExecConnection, errorOfControl, STDOUT } from "./connection.ts";
import { brokenStream, letGoOf, readFacts, type StreamTarget } from "./facts.ts";
import { toTerminal } from "./options.ts";
import { ExecOutcome } from "./outcome.ts";
import { reattach } from "./reattach.ts";

/** Bytes that a program wrote; a terminal has `stdout` only. */
export interface ExecChunk {
  kind: "stdout" | "stderr";
  data: Buffer;
}

export interface StreamBeginning {
  /** Starts a program; without it an exec is joined. */
  start: ExecRequest | null;
  /** Of the exec that is joined. */
  execId?: string;
  from?: "start" | "now";
  signal?: AbortSignal | undefined;
}

/**
 * A program whose output is read as it comes: `for await (const { kind, data } of stream)`. Nothing is dropped: a reader that is
 * slow holds the program up. A broken connection is made again where not a byte was lost meanwhile, else `ConnectionError` says so;
 * the program lives on either way. `close` lets go of it; `await using` ends it where this stream had started it.
 */
export class ExecStream implements AsyncIterable<ExecChunk>, AsyncDisposable {
  readonly id: string;
  /** Inside the machine; null where it is not known any more. */
  readonly pid: number | null;
  /** When it was joined: `running`, `exited`, `detached` or `lost`. */
  readonly state: string;
  /** Bytes that were not kept before it was joined. */
  readonly dropped: Readonly<{ stdout: number; stderr: number }>;
  /** Standard input; `end` closes it after the last byte. */
  readonly stdin: Writable;
  readonly #target: StreamTarget;
  readonly #beginning: StreamBeginning;
  readonly #received = { stdout: 0, stderr: 0 };
  readonly #ended = Promise.withResolvers<ExecOutcome>();
  readonly #abort = (): void => this.fail(this.#beginning.signal?.reason as Error);
  #connection: ExecConnection;
  #outcome: ExecOutcome | null = null;
  #reading = false;
  #isClosed = false;
  #input: "unused" | "written" = "unused";
  #inputEnded = false;
  /** Bytes that a new connection sends once more. */
  #repeated = { stdout: 0, stderr: 0 };

  private constructor(target: StreamTarget, beginning: StreamBeginning, connection: ExecConnection, facts: Attached) {
    this.#target = target;
    this.#beginning = beginning;
    this.#connection = connection;
    this.id = facts.id;
    this.pid = facts.pid;
    this.state = facts.state;
    this.dropped = facts.dropped ?? { stdout: 0, stderr: 0 };
    this.stdin = this.#makeInput();
    this.#ended.promise.catch(() => undefined);
    beginning.signal?.addEventListener("abort", this.#abort, { once: true });
  }

  /** Starts or joins; resolves once the program runs. */
  static async open(target: StreamTarget, beginning: StreamBeginning): Promise<ExecStream> {
    const { start, execId, from, signal } = beginning;
    const route = start === null ? `/exec/${encodeURIComponent(execId ?? "")}/attach?from=${from}` : "/exec/attach";
    const socket = await openWebSocket(target.transport.endpoint, target.path + route, signal);
    const connection = new ExecConnection(socket);
    if (start !== null) connection.sendControl({ start });
    try {
      return new ExecStream(target, beginning, connection, await readFacts(connection));
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** How it ended; null while it runs. */
  get outcome(): ExecOutcome | null {
    return this.#outcome;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ExecChunk, void, undefined> {
    this.#reading = true;
    try {
      for (let chunk = await this.#read(); chunk !== null; chunk = await this.#read()) yield chunk;
    } finally {
      this.#reading = false;
    }
  }

  /** Waits for the end and throws unread output away, unless somebody reads it. */
  async wait(): Promise<ExecOutcome> {
    if (!this.#reading) for await (const _ of this);
    return this.#ended.promise;
  }

  /** Sends a signal, by its name without `SIG`, to the program and with `tree` to everything below it. */
  kill(signal = "KILL", { tree = true }: { tree?: boolean } = {}): void {
    if (this.#outcome === null) this.#connection.sendControl({ signal, tree });
  }

  /** Tells the terminal's new size. */
  resize(terminal: Terminal): void {
    this.#connection.sendControl({ resize: toTerminal(terminal) });
  }

  /** Lets go; the program lives on, and what it writes is kept. */
  close(): void {
    this.#isClosed = true;
    this.#connection.close();
    this.#settle();
    this.#ended.reject(letGoOf(this.id));
  }

  /** Ends the program where this stream had started it; readers get `reason`. */
  fail(reason: Error): void {
    if (this.#beginning.start !== null) this.kill("KILL");
    this.#connection.fail(reason);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#outcome === null && this.#beginning.start !== null) {
      const { transport, path } = this.#target;
      await transport.json("DELETE", `${path}/exec/${this.id}`, { retries: 3 }).catch(ignoreGone);
    }
    this.close();
  }

  async #read(): Promise<ExecChunk | null> {
    for (;;) {
      if (this.#outcome !== null || this.#isClosed) return null;
      try {
        const message = await this.#connection.next();
        if (this.#isClosed) return null;
        if (message === null) await this.#joinAgain();
        else if (message.kind === "control") this.#readControl(message.control);
        else {
          const chunk = this.#count(message.kind === STDOUT ? "stdout" : "stderr", message.data);
          if (chunk.data.length > 0) return chunk;
        }
      } catch (error) {
        this.#settle();
        this.#ended.reject(error);
        throw error;
      }
    }
  }

  #count(kind: ExecChunk["kind"], sent: Buffer): ExecChunk {
    const skipped = Math.min(sent.length, this.#repeated[kind]);
    this.#repeated[kind] -= skipped;
    const data = sent.subarray(skipped);
    this.#received[kind] += data.length;
    return { kind, data };
  }

  #readControl(control: Readonly<Record<string, unknown>>): void {
    const error = errorOfControl(control);
    if (error !== null) throw error;
    if (control.exit === undefined) return;
    this.#outcome = new ExecOutcome(control.exit as WireOutcome);
    this.#ended.resolve(this.#outcome);
    this.close();
  }

  async #joinAgain(): Promise<void> {
    const { start, from } = this.#beginning;
    const hasTerminal = start?.tty !== undefined && start.tty !== null;
    const isWhole = this.#input === "unused" && from !== "now" && !hasTerminal;
    if (!isWhole) throw brokenStream(this.id);
    this.#connection = await reattach(this.#target, this.id);
    this.#repeated = { ...this.#received };
    if (this.#inputEnded) this.#connection.sendControl({ end_stdin: true });
  }

  #makeInput(): Writable {
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.#input = "written";
        this.#connection.sendInput(chunk, () => done());
      },
      final: (done) => {
        this.#inputEnded = true;
        this.#connection.sendControl({ end_stdin: true });
        done();
      },
    });
  }

  #settle(): void {
    this.#beginning.signal?.removeEventListener("abort", this.#abort);
    this.stdin.destroy();
  }
}

function ignoreGone(error: unknown): void {
  const gone = error instanceof SandpoolError && (error.status === 404 || error.status === 410);
  if (!gone) throw error;
}
