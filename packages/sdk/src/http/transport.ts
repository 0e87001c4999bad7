import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, type Dispatcher, request } from "undici";
import { ConnectionError, errorFromWire, SandpoolError } from "../errors.ts";
import { parseJson } from "../values/json.ts";
import type { Endpoint } from "./credentials.ts";

/** A successful answer whose body has not been read. */
export type Reply = Dispatcher.ResponseData;

export interface RequestOptions {
  /** A stream can be sent once: no retries with it. */
  body?: string | Uint8Array | Readable;
  contentType?: string;
  accept?: string;
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal | undefined;
  /** Extra attempts when the connection breaks; only for requests that are safe to repeat. */
  retries?: number;
  /** Codes that a repeated request may meet while its first copy still runs; they are retried, not thrown. */
  busyCodes?: readonly string[];
  /** An earlier send of this request may still run. */
  repeated?: boolean;
  /** How long the server may be silent; 0: for ever. Default 300 s. */
  timeoutMs?: number;
}

const PAUSES_MS = [0, 50, 200, 500, 1000];
const LONGEST_PAUSE_MS = 1000;
const DEFAULT_TIMEOUT_MS = 300_000;
const LOCAL_CONNECT_TIMEOUT_MS = 1000;
// Codes of a connection that was never made: the server has not seen the request.
const NOT_CONNECTED = new Set([
  "EACCES",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);
const SILENT = new Set(["UND_ERR_BODY_TIMEOUT", "UND_ERR_HEADERS_TIMEOUT"]);

/** For single requests: idle connections end after four seconds, whatever the server proposes. */
const SHARED_CONNECTIONS = new Agent({ keepAliveTimeout: 4000, keepAliveMaxTimeout: 4000 });

/** One server and one key; every request of the client goes through it. */
export class Transport {
  readonly endpoint: Endpoint;
  private readonly connections: Agent;
  private localConnections: Agent | null;

  /**
   * With `socketPath` connections are made to that unix socket while it answers; with it or `dedicated` they are this
   * object's own and end with `close`. Otherwise they are shared, and end after a few idle seconds.
   */
  constructor(endpoint: Endpoint, options: { dedicated?: boolean; socketPath?: string | null } = {}) {
    this.endpoint = endpoint;
    const { socketPath = null } = options;
    this.connections = options.dedicated || socketPath !== null ? new Agent() : SHARED_CONNECTIONS;
    this.localConnections =
      socketPath === null ? null : new Agent({ connect: { socketPath, timeout: LOCAL_CONNECT_TIMEOUT_MS } });
  }

  /** Sends a request and gives the successful reply to `read`; throws the typed error otherwise. A broken body is retried too. */
  async send<Result>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (reply: Reply) => Promise<Result>,
  ): Promise<Result> {
    const attempts = 1 + (options.retries ?? 0);
    const { signal } = options;
    const until = performance.now() + (options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    let [broken, busy, mayHaveArrived] = [0, 0, options.repeated === true];
    for (;;) {
      try {
        return await this.sendOnce(method, path, options, read);
      } catch (cause) {
        if (signal?.aborted) throw signal.reason;
        const code = codeOf(cause);
        const isBusy = mayHaveArrived && options.busyCodes?.includes(code) === true;
        if (cause instanceof SandpoolError && !isBusy) throw cause;
        if (isBusy) busy += 1;
        else if (this.leaveLocal(code)) continue;
        else broken += 1;
        if (!isBusy && !NOT_CONNECTED.has(code)) mayHaveArrived = true;
        if (broken >= attempts || SILENT.has(code) || (isBusy && performance.now() > until)) {
          throw this.connectionError(`${method} ${this.endpoint.url}${path}`, broken + busy, mayHaveArrived, cause);
        }
        const pauseMs = isBusy ? 20 * 2 ** Math.min(busy, 6) : (PAUSES_MS[broken - 1] ?? LONGEST_PAUSE_MS);
        await sleep(Math.min(pauseMs, LONGEST_PAUSE_MS), undefined, signal ? { signal } : {});
      }
    }
  }

  /** `send`, with the reply parsed as JSON. */
  async json(method: string, path: string, options: RequestOptions = {}): Promise<unknown> {
    return this.send(method, path, { accept: "application/json", ...options }, async (reply) =>
      parseJson(await reply.body.text()),
    );
  }

  /** True for a 2xx answer to HEAD, false for 404. */
  async exists(path: string, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.send("HEAD", path, { retries: 3, signal }, (reply) => reply.body.dump());
      return true;
    } catch (error) {
      if (!(error instanceof SandpoolError) || error.status === undefined) throw error;
      if (error.status === 404) return false;
      // A reply to HEAD has no body to say why; the same refusal of something cheap does.
      await this.json("GET", "/v1/pools", { signal });
      throw error;
    }
  }

  /** Ends the connections that are this object's own. */
  close(): void {
    for (const connections of [this.connections, this.localConnections]) {
      if (connections !== SHARED_CONNECTIONS) connections?.destroy().catch(() => undefined);
    }
  }

  private async sendOnce<Result>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (reply: Reply) => Promise<Result>,
  ): Promise<Result> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.endpoint.key}`, ...options.headers };
    if (options.accept !== undefined) headers.accept = options.accept;
    if (options.body !== undefined) headers["content-type"] = options.contentType ?? "application/json";
    const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    // Redirects are not followed: one could carry the key to another host.
    const reply = await request(this.endpoint.url + path, {
      method: method as Dispatcher.HttpMethod,
      headers,
      body: options.body ?? null,
      signal: options.signal ?? null,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      dispatcher: this.localConnections ?? this.connections,
    });
    if (reply.statusCode >= 200 && reply.statusCode < 300) return await read(reply);
    const retryAfter = Number(reply.headers["retry-after"] ?? Number.NaN);
    const seconds = Number.isFinite(retryAfter) && retryAfter >= 0 ? retryAfter : undefined;
    throw errorFromWire(reply.statusCode, await readJsonOrNull(reply), seconds);
  }

  /** Whether nobody listened on the unix socket; from then on TCP, which says what is wrong. */
  private leaveLocal(code: string): boolean {
    if (this.localConnections === null || !NOT_CONNECTED.has(code)) return false;
    this.localConnections.destroy().catch(() => undefined);
    this.localConnections = null;
    return true;
  }

  private connectionError(what: string, attempts: number, mayHaveArrived: boolean, cause: unknown): ConnectionError {
    const reason = codeOf(cause) || (cause as Error).message;
    const tries = attempts === 1 ? "" : ` after ${attempts} attempts`;
    return new ConnectionError(`${what} got no answer${tries}: ${reason}.`, {
      cause,
      mayHaveArrived,
      hint: SILENT.has(reason)
        ? "The server is there and silent for longer than this may take: is its machine overloaded or stopped?"
        : `Check that the server runs ("sandpool doctor") and that SANDPOOL_URL is right; start one with "sandpool up".`,
    });
  }
}

function codeOf(cause: unknown): string {
  const { code } = cause as { code?: unknown };
  return typeof code === "string" ? code : "";
}

async function readJsonOrNull(reply: Reply): Promise<unknown> {
  try {
    return await reply.body.json();
  } catch {
    return null;
  }
}
