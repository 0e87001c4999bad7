import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, errorFromWire, SandpoolError } from "../errors.ts";
import { parseJson } from "../values/json.ts";
import type { Endpoint } from "./credentials.ts";

export interface RequestOptions {
  body?: string | Uint8Array;
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
}

const FIRST_RETRY_DELAY_MS = 100;
const LAST_RETRY_DELAY_MS = 2000;

/** One server and one key; every request of the client goes through it. */
export class Transport {
  readonly endpoint: Endpoint;

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }

  /** Sends a request and gives the successful response to `read`; throws the typed error otherwise. A broken body is retried too. */
  async send<Result>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result> {
    const attempts = 1 + (options.retries ?? 0);
    let broken = 0;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.sendOnce(method, path, options, read);
      } catch (cause) {
        if (options.signal?.aborted) throw options.signal.reason;
        const mayStillRun = broken > 0 || options.repeated === true;
        const stillRunning = mayStillRun && options.busyCodes?.includes((cause as SandpoolError).code);
        if (cause instanceof SandpoolError && !stillRunning) throw cause;
        if (!stillRunning) broken += 1;
        if (broken >= attempts) throw this.connectionError(method, path, attempt, cause);
        const delayMs = Math.min(FIRST_RETRY_DELAY_MS * 2 ** (attempt - 1), LAST_RETRY_DELAY_MS);
        await sleep(delayMs, undefined, options.signal ? { signal: options.signal } : {});
      }
    }
  }

  /** `send`, with the reply parsed as JSON. */
  async json(method: string, path: string, options: RequestOptions = {}): Promise<unknown> {
    return this.send(method, path, { accept: "application/json", ...options }, async (response) =>
      parseJson(await response.text()),
    );
  }

  /** True for a 2xx answer to HEAD, false for 404. */
  async exists(path: string, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.send("HEAD", path, { retries: 3, signal }, async () => undefined);
      return true;
    } catch (error) {
      if (!(error instanceof SandpoolError) || error.status === undefined) throw error;
      if (error.status === 404) return false;
      // A reply to HEAD has no body to say why; the same refusal of something cheap does.
      await this.json("GET", "/v1/pools", { signal });
      throw error;
    }
  }

  private async sendOnce<Result>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.endpoint.key}`, ...options.headers };
    if (options.accept !== undefined) headers.accept = options.accept;
    if (options.body !== undefined) headers["content-type"] = options.contentType ?? "application/json";
    const response = await fetch(this.endpoint.url + path, {
      method,
      headers,
      // A redirect could carry the key to another host, so none is followed.
      redirect: "error",
      signal: options.signal ?? null,
      body: (options.body as string | Uint8Array<ArrayBuffer> | undefined) ?? null,
    });
    if (response.ok) return await read(response);
    throw errorFromWire(response.status, await readJsonOrNull(response));
  }

  private connectionError(method: string, path: string, attempts: number, cause: unknown): ConnectionError {
    const inner = (cause as { cause?: { code?: string; message?: string } }).cause;
    const reason = inner?.code ?? inner?.message ?? (cause as Error).message;
    const tries = attempts === 1 ? "" : ` after ${attempts} attempts`;
    return new ConnectionError(`${method} ${this.endpoint.url}${path} got no answer${tries}: ${reason}.`, {
      cause,
      hint: `Check that the server runs ("sandpool doctor") and that SANDPOOL_URL is right; start one with "sandpool up".`,
    });
  }
}

async function readJsonOrNull(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return null;
  }
}
