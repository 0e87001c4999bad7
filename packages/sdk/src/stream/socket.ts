import type { ClientRequest, IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { STREAM_CLOSE_CODES, STREAM_PROTOCOLS } from "@sandpool/protocol";
import { type ClientOptions, type RawData, WebSocket } from "ws";
import { errorFromWire, SandpoolError } from "../errors.ts";
import type { PoolEndpoint } from "../pool/endpoint.ts";

const OPEN_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 2_000;
const MESSAGE_LIMIT_BYTES = 2 ** 31 - 1;
const REFUSAL_LIMIT_BYTES = 64 * 1024;
const KEEPALIVE_MS = 15_000;
const TOO_LARGE = 1009;

/** Statuses of the errors with which a server ends a stream for good, by close code. */
const STATUSES: Readonly<Record<number, number>> = {
  [TOO_LARGE]: 413,
  [STREAM_CLOSE_CODES.brokenContract]: 400,
  [STREAM_CLOSE_CODES.keyRevoked]: 401,
  [STREAM_CLOSE_CODES.poolUnknown]: 404,
  [STREAM_CLOSE_CODES.taken]: 409,
  [STREAM_CLOSE_CODES.poolEnded]: 410,
};

/** The pool whose stream is opened. */
export interface StreamTarget {
  endpoint: PoolEndpoint;
  poolId: string;
}

/** A connection that broke or could not be made; another one may succeed. */
export class BrokenStreamError extends Error {
  /** Whether nobody listened. */
  readonly isUnreachable: boolean;

  constructor(reason: string, options: { isUnreachable?: boolean } = {}) {
    super(reason);
    this.isUnreachable = options.isUnreachable ?? false;
  }
}

/**
 * One WebSocket of a stream, from the handshake to its end. `ended` resolves with why: a `BrokenStreamError`, or the
 * `SandpoolError` with which the server refused or ended it.
 */
export class StreamSocket {
  readonly ended: Promise<Error>;
  /** The `{"error": …}` event that came last: why the server closes. */
  lastWords: unknown = null;
  readonly #socket: WebSocket;
  readonly #end: (error: Error) => void;
  #transport: Socket | null = null;
  #holds = true;

  /** `receive` takes each message; what it throws ends the connection. */
  constructor(
    { endpoint, poolId }: StreamTarget,
    session: string,
    received: number,
    receive: (data: Buffer, isBinary: boolean) => void,
  ) {
    const { promise, resolve } = Promise.withResolvers<Error>();
    this.ended = promise;
    this.#end = resolve;
    const url = new URL(`${endpoint.url.replace(/^http/, "ws")}/v1/pools/${encodeURIComponent(poolId)}/stream`);
    url.search = new URLSearchParams({ session, received: String(received) }).toString();
    this.#socket = new WebSocket(url, STREAM_PROTOCOLS.binary, optionsFor(endpoint));
    this.#listen(receive);
  }

  send(data: string | Buffer): void {
    this.#socket.send(data, { binary: typeof data !== "string" });
  }

  /** Whether the connection alone keeps the program running. */
  hold(holds: boolean): void {
    this.#holds = holds;
    if (holds) this.#transport?.ref();
    else this.#transport?.unref();
  }

  /** Closes politely, and by force if the server does not answer within two seconds. */
  close(): void {
    this.hold(true);
    if (this.#socket.readyState === WebSocket.CONNECTING) this.#socket.terminate();
    else this.#socket.close(1000);
  }

  /** Ends the connection at once, for a reason of our own. */
  break(reason: Error): void {
    this.#end(reason);
    this.#socket.terminate();
  }

  #listen(receive: (data: Buffer, isBinary: boolean) => void): void {
    let reason = "";
    let isUnreachable = false;
    const socket = this.#socket;
    socket.on("upgrade", (response: IncomingMessage) => {
      this.#transport = response.socket;
      response.socket.setKeepAlive(true, KEEPALIVE_MS);
      this.hold(this.#holds);
    });
    socket.on("message", (data: RawData, isBinary: boolean) => {
      try {
        receive(data as Buffer, isBinary);
      } catch (error) {
        this.break(error as Error);
      }
    });
    socket.on("unexpected-response", (request, response) => this.#refused(request, response));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      reason = error.code ?? error.message;
      isUnreachable = error.syscall === "connect" || error.syscall === "getaddrinfo";
    });
    socket.on("close", (code) => {
      const broken = new BrokenStreamError(reason || `the connection ended with code ${code}`, { isUnreachable });
      this.#end(explainClosing(code, this.lastWords) ?? broken);
    });
  }

  #refused(request: ClientRequest, response: IncomingMessage): void {
    const status = response.statusCode ?? 0;
    const chunks: Buffer[] = [];
    let bytes = 0;
    const finish = (): void => {
      const error = errorFromWire(status, parseOrNull(Buffer.concat(chunks).toString("utf8")));
      this.break(status >= 500 ? new BrokenStreamError(`HTTP ${status}: ${error.message}`) : error);
      request.destroy();
    };
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= REFUSAL_LIMIT_BYTES) chunks.push(chunk);
      else finish();
    });
    response.on("end", finish);
    response.on("error", finish);
  }
}

/** The error with which the server ended a stream; null for a connection that only broke or may be opened again. */
function explainClosing(code: number, lastWords: unknown): SandpoolError | null {
  const said = lastWords === null ? null : errorFromWire(STATUSES[code] ?? 410, lastWords);
  // A pool ends with its server, so these are final also where the server only stops.
  if (said?.code === "pool_closed" || said?.code === "pool_lost") return said;
  if (code === TOO_LARGE) {
    return new SandpoolError(
      "body_too_large",
      "A message of the stream is larger than the server or this client takes.",
      {
        status: 413,
        hint: "Send fewer rows at once, or smaller actions.",
      },
    );
  }
  if (STATUSES[code] === undefined) return null;
  return said ?? errorFromWire(STATUSES[code], null);
}

function optionsFor({ key, socketPath }: PoolEndpoint): ClientOptions {
  const options: ClientOptions & { closeTimeout: number; createConnection?: () => Socket } = {
    headers: { authorization: `Bearer ${key}` },
    handshakeTimeout: OPEN_TIMEOUT_MS,
    closeTimeout: CLOSE_TIMEOUT_MS,
    perMessageDeflate: false,
    maxPayload: MESSAGE_LIMIT_BYTES,
    // A redirect could carry the key to another host.
    followRedirects: false,
  };
  if (socketPath !== null) options.createConnection = () => connect(socketPath);
  return options;
}

/** JSON, or null for what is none. */
export function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
