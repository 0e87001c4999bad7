import type { IncomingMessage } from "node:http";
import { type NormalHost, normalizeHost } from "../policy/hosts.ts";
import { Refusal } from "./dial.ts";

/** Headers that speak of one connection only (RFC 9110, 7.6.1). */
const hopHeaders = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Where a request wants to go: the absolute address it names, or its Host. @throws Refusal */
export function targetOf(request: IncomingMessage): {
  host: NormalHost;
  port: number;
  path: string;
  authority: string;
} {
  const text = request.url ?? "";
  // Node keeps the first of several; which one the server takes, nobody knows.
  const hosts = request.rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host").length;
  const absolute = text.startsWith("/") ? `http://${request.headers.host ?? ""}${text}` : text;
  const url = URL.parse(absolute);
  if (hosts > 1 || url?.protocol !== "http:" || !/^http:\/\/[^@\\/?#]+(?:[/?#]|$)/i.test(absolute)) {
    throw new Refusal(400, "a request has one Host, and an address with http: or CONNECT host:port");
  }
  const host = normalizeHost(url.hostname);
  if (host === null) throw new Refusal(400, `${JSON.stringify(url.hostname)} is no full host name or address`);
  return { host, port: url.port === "" ? 80 : Number(url.port), path: url.pathname + url.search, authority: url.host };
}

/** Where a CONNECT wants to go. @throws Refusal */
export function tunnelOf(request: IncomingMessage): { host: NormalHost; port: number } {
  const found = /^(\[[^\]]+\]|[^:]+):(\d{1,5})$/.exec(request.url ?? "");
  const host = normalizeHost(found?.[1] ?? "");
  const port = Number(found?.[2]);
  if (host === null || port < 1 || port > 65_535) {
    throw new Refusal(400, "CONNECT takes a full host name or an address, and a port");
  }
  return { host, port };
}

/** Headers that are passed on, as they were written. */
export function endToEnd({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = new Set((headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
  const kept: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = "", value = ""] = rawHeaders.slice(at, at + 2);
    const lower = name.toLowerCase();
    if (lower !== "host" && !hopHeaders.has(lower) && !named.has(lower)) kept.push(name, value);
  }
  return kept;
}
