import type { IncomingMessage } from "node:http";

/** What the address of an attachment names. */
export interface AttachTarget {
  machine: string;
  /** Null: the first message starts one. */
  exec: string | null;
  query: URLSearchParams;
}

const PATH = /^\/v1\/machines\/([a-z][a-z0-9-]{0,39})\/exec\/(?:(x[0-9a-z]{16})\/)?attach(?:\?(.*))?$/;

/** Null for any other address. */
export function matchAttach(url: string): AttachTarget | null {
  const match = PATH.exec(url);
  if (match === null) return null;
  return { machine: String(match[1]), exec: match[2] ?? null, query: new URLSearchParams(match[3] ?? "") };
}

/** Whether a request opens an attachment. */
export function isAttachUpgrade({ method, headers, url = "" }: IncomingMessage): boolean {
  return method === "GET" && headers.upgrade?.toLowerCase() === "websocket" && matchAttach(url) !== null;
}
