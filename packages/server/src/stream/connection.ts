import type { Duplex } from "node:stream";
import { SandpoolError, STREAM_PROTOCOLS } from "@sandpool/protocol";
import type { Pool, StreamConnection, StreamMessage } from "@sandpool/worker";
import type { RawData, WebSocket } from "ws";
import { toSandpoolError } from "../http/sendError.ts";
import type { RequestContext } from "../http/serveRequests.ts";
import type { Identity } from "../keys/keyring.ts";
import { closeCodeOf } from "./closeCode.ts";
import { MessageClock } from "./messageClock.ts";
import { parseMessage } from "./parseMessage.ts";

export type StreamContext = Pick<RequestContext, "catalog" | "limits" | "metrics" | "logger">;

/** Who opened a connection, and what for. */
export interface Opening {
  caller: Identity;
  idOrName: string;
  session: string;
  received: number;
}

/** One WebSocket of a pool's stream: messages in, results out; the session is the pool's and outlives it. */
export class SocketConnection {
  readonly #socket: WebSocket;
  readonly #context: StreamContext;
  readonly #caller: Identity;
  readonly #takesBinary: boolean;
  readonly #clock: MessageClock;
  #stream: StreamConnection | null = null;
  #isOver = false;

  /** `transport` is what the WebSocket reads from. */
  constructor(context: StreamContext, socket: WebSocket, transport: Duplex, opening: Opening) {
    this.#context = context;
    this.#socket = socket;
    this.#caller = opening.caller;
    this.#takesBinary = socket.protocol === STREAM_PROTOCOLS.binary;
    this.#clock = new MessageClock(transport, context.limits, (error) => this.#end(error));
    // The library closes the socket itself then, with the code of what was wrong in the frames.
    socket.on("error", () => this.#leave());
    socket.on("close", () => this.#leave());
    socket.on("message", (data, isBinary) => this.#receive(data, isBinary));
    this.#attempt(() => this.#open(opening));
  }

  #open({ caller, idOrName, session, received }: Opening): void {
    const pool: Pool = this.#context.catalog.find(caller.owner, idOrName);
    const encoding = this.#takesBinary ? "binary" : "json";
    this.#stream = pool.openStream(
      { session, encoding, received },
      { send: (message) => this.#send(message), end: (error) => this.#end(error) },
    );
  }

  #receive(data: RawData, isBinary: boolean): void {
    this.#attempt(() => {
      const stream = this.#stream;
      if (this.#isOver || stream === null) return;
      if (this.#caller.revoked) throw revoked();
      const message = parseMessage(data as Buffer, isBinary, this.#takesBinary, this.#context.limits.jsonDepth);
      if ("request" in message) stream.take(message.request);
      else stream.refuse(message.number, message.received, message.error);
    });
  }

  #attempt(act: () => void): void {
    try {
      act();
    } catch (thrown) {
      this.#end(toSandpoolError(thrown, this.#context.logger));
    }
  }

  /** Large columns go as fragments of one message: whole, but never joined. */
  #send({ chunks, isText, summary }: StreamMessage): void {
    const socket = this.#socket;
    if (socket.readyState !== socket.OPEN) return;
    if (summary !== undefined) this.#context.metrics.streamed(summary);
    for (const [index, chunk] of chunks.entries()) {
      const fin = index === chunks.length - 1;
      socket.send(chunk, { binary: !isText, fin }, fin ? () => this.#readOn() : undefined);
    }
    if (socket.bufferedAmount <= this.#context.limits.streamUnsentBytes) return;
    this.#clock.pause();
    socket.pause();
  }

  #readOn(): void {
    const socket = this.#socket;
    if (!socket.isPaused || socket.bufferedAmount > this.#context.limits.streamUnsentBytes) return;
    this.#clock.resume();
    socket.resume();
  }

  #end(error: SandpoolError): void {
    if (this.#isOver) return;
    this.#leave();
    this.#context.metrics.error(error.code);
    const socket = this.#socket;
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify({ event: "error", ...error.toWire() }));
    socket.close(closeCodeOf(error), error.code);
  }

  #leave(): void {
    this.#isOver = true;
    this.#clock.stop();
    this.#stream?.detach();
    this.#stream = null;
  }
}

function revoked(): SandpoolError {
  return new SandpoolError("unauthorized", "the key that opened this stream was deleted", {
    hint: "open it again with another key of the same owner",
  });
}
