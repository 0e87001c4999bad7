import { ERROR_CODES } from "@sandpool/protocol";
import type { RawData, WebSocket } from "ws";
import { errorFromWire, SandpoolError } from "../../errors.ts";

export const INPUT = 0;
export const STDOUT = 1;
export const STDERR = 2;
const CONTROL = 3;

const PIECE_BYTES = 64 * 1024;
// A reader that does not read holds the program up instead of filling the client's memory.
const HIGH_WATER_BYTES = 1024 * 1024;
const LOW_WATER_BYTES = 256 * 1024;

export type Message =
  | { kind: typeof STDOUT | typeof STDERR; data: Buffer }
  | { kind: "control"; control: Readonly<Record<string, unknown>> };

/** The messages of one attached WebSocket, in order and with back-pressure both ways. */
export class ExecConnection {
  readonly #socket: WebSocket;
  readonly #queue: Message[] = [];
  #queuedBytes = 0;
  #paused = false;
  #ending: Error | "closed" | null = null;
  #notify: (() => void) | null = null;

  /** The socket is paused, as `openWebSocket` gives it. */
  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data: RawData, isBinary: boolean) => this.#take(data as Buffer, isBinary));
    socket.on("close", () => this.#end("closed"));
    socket.resume();
  }

  /** The next message; null once the connection has ended. Throws what it was failed with. */
  async next(): Promise<Message | null> {
    while (this.#queue.length === 0) {
      if (this.#ending instanceof Error) throw this.#ending;
      if (this.#ending !== null) return null;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#notify = resolve;
      await promise;
    }
    const message = this.#queue.shift() as Message;
    if (message.kind !== "control") this.#queuedBytes -= message.data.length;
    if (this.#paused && this.#queuedBytes <= LOW_WATER_BYTES) {
      this.#paused = false;
      this.#socket.resume();
    }
    return message;
  }

  sendControl(control: object): void {
    this.#send(CONTROL, Buffer.from(JSON.stringify(control)), () => undefined);
  }

  /** Sends standard input; `sent` is called once the socket takes more. */
  sendInput(data: Buffer, sent: () => void): void {
    let offset = 0;
    const next = (): void => {
      if (offset >= data.length || this.#ending !== null) {
        sent();
        return;
      }
      const piece = data.subarray(offset, offset + PIECE_BYTES);
      offset += piece.length;
      this.#send(INPUT, piece, next);
    };
    next();
  }

  /** Says farewell; what comes meanwhile is dropped. */
  close(): void {
    this.#end("closed");
    this.#queue.length = 0;
    this.#socket.resume();
    this.#socket.close(1000);
  }

  /** Ends it at once; readers get `reason`. */
  fail(reason: Error): void {
    this.#end(reason);
    this.#socket.terminate();
  }

  #send(kind: number, data: Buffer, sent: () => void): void {
    const message = Buffer.allocUnsafe(data.length + 1);
    message[0] = kind;
    data.copy(message, 1);
    // What fails to be sent shows as the connection's end.
    this.#socket.send(message, { binary: true }, () => sent());
  }

  #take(data: Buffer, isBinary: boolean): void {
    if (this.#ending !== null) return;
    const message = isBinary ? parseMessage(data) : null;
    if (message === null) {
      this.fail(violation());
      return;
    }
    this.#queue.push(message);
    if (message.kind !== "control") this.#queuedBytes += message.data.length;
    if (!this.#paused && this.#queuedBytes > HIGH_WATER_BYTES) {
      this.#paused = true;
      this.#socket.pause();
    }
    this.#wake();
  }

  #end(ending: Error | "closed"): void {
    this.#ending ??= ending;
    this.#wake();
  }

  #wake(): void {
    this.#notify?.();
    this.#notify = null;
  }
}

function parseMessage(data: Buffer): Message | null {
  const [kind] = data;
  if (kind === STDOUT || kind === STDERR) return { kind, data: data.subarray(1) };
  if (kind !== CONTROL) return null;
  try {
    const control: unknown = JSON.parse(data.toString("utf8", 1));
    return typeof control === "object" && control !== null ? { kind: "control", control: { ...control } } : null;
  } catch {
    return null;
  }
}

function violation(): SandpoolError {
  return new SandpoolError("protocol_violation", "The server sent a message that is no frame of an exec.", {
    hint: "Client and server may be of different versions.",
  });
}

/** The typed error of a control message `{"error": …}`; null for another one. */
export function errorOfControl(control: Readonly<Record<string, unknown>>): SandpoolError | null {
  if (control.error === undefined) return null;
  const { code } = control.error as { code?: string };
  const known = ERROR_CODES[code as keyof typeof ERROR_CODES] as { status: number | null } | undefined;
  return errorFromWire(known?.status ?? 500, control);
}
