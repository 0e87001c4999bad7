import type { IncomingMessage } from "node:http";
import { type ClientOptions, WebSocket } from "ws";
import { ConnectionError, errorFromWire } from "../errors.ts";
import type { Endpoint } from "./credentials.ts";

const OPEN_TIMEOUT_MS = 15_000;
const KEEPALIVE_MS = 15_000;
const CLOSE_TIMEOUT_MS = 2000;
const REFUSAL_LIMIT_BYTES = 64 * 1024;
const MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024;

/**
 * Opens a WebSocket of the server; resolves once it stands. It starts paused: `resume` once a listener is there.
 * @throws ConnectionError, or the typed error with which the server refused
 */
export function openWebSocket(endpoint: Endpoint, path: string, signal?: AbortSignal): Promise<WebSocket> {
  const url = `${endpoint.url.replace(/^http/, "ws")}${path}`;
  const options: ClientOptions & { closeTimeout: number } = {
    headers: { authorization: `Bearer ${endpoint.key}` },
    handshakeTimeout: OPEN_TIMEOUT_MS,
    closeTimeout: CLOSE_TIMEOUT_MS,
    perMessageDeflate: false,
    maxPayload: MESSAGE_LIMIT_BYTES,
    // A redirect could carry the key to another host.
    followRedirects: false,
  };
  const socket = new WebSocket(url, options);
  return new Promise((resolve, reject) => {
    const abort = (): void => fail(signal?.reason as Error);
    const fail = (error: Error): void => {
      signal?.removeEventListener("abort", abort);
      reject(error);
      socket.terminate();
    };
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    socket.on("upgrade", (response) => response.socket.setKeepAlive(true, KEEPALIVE_MS));
    socket.once("unexpected-response", (_request, response) => {
      readRefusal(response).then((body) => fail(errorFromWire(response.statusCode ?? 0, body)), fail);
    });
    // Stays: a socket without a listener for errors would end the program.
    socket.on("error", (error) => fail(notOpened(url, error)));
    socket.once("open", () => {
      signal?.removeEventListener("abort", abort);
      socket.pause();
      resolve(socket);
    });
  });
}

async function readRefusal(response: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > REFUSAL_LIMIT_BYTES) break;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return null;
  }
}

function notOpened(url: string, cause: NodeJS.ErrnoException): ConnectionError {
  return new ConnectionError(`${url} could not be opened: ${cause.code ?? cause.message}.`, {
    cause,
    mayHaveArrived: false,
    hint: `Check that the server runs ("sandpool doctor") and that SANDPOOL_URL is right; start one with "sandpool up".`,
  });
}
