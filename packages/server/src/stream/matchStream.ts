import type { IncomingMessage } from "node:http";

/** Whether a request opens a pool's stream: only those are taken off HTTP, any other upgrade is answered as if it had not asked. */
export function isStreamUpgrade(request: IncomingMessage): boolean {
  const { method, headers, url = "" } = request;
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && matchStream(url) !== null;
}

/** The pool and the query of a stream's address; null for any other. */
export function matchStream(url: string): { idOrName: string; query: URLSearchParams } | null {
  const match = /^\/v1\/pools\/([a-z0-9_-]+)\/stream(?:\?(.*))?$/.exec(url);
  return match === null ? null : { idOrName: match[1] as string, query: new URLSearchParams(match[2] ?? "") };
}
