import type { IncomingMessage } from "node:http";
import type { PortAddress } from "./address.ts";
import type { AdmittedRequest } from "./admit.ts";
import { LINK_NAME } from "./links.ts";

/** Headers of one connection, not of the message (RFC 9110, section 7.6.1), and those that the two ends agree on anew. */
const HOP_BY_HOP = [
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "transfer-encoding",
  "upgrade",
];
const OURS = ["host", "authorization", "cookie", "forwarded", "content-length"];
const FORWARDED = [
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-forwarded-prefix",
  "x-forwarded-port",
];
/** What a program could do to the origin that it shares with the API and with other machines. */
const OF_THE_ORIGIN = ["clear-site-data", "service-worker-allowed", "alt-svc", "strict-transport-security"];

/** What the program is asked with, as a flat list of names and values. `Host` is as it was asked. */
export function requestHeaders(
  request: IncomingMessage,
  { form, prefix }: PortAddress,
  admitted: AdmittedRequest,
  scheme: "http" | "https",
): string[] {
  const dropped = new Set([...HOP_BY_HOP, ...OURS, ...FORWARDED, ...named(request.headers.connection)]);
  const kept = ["Host", request.headers.host ?? "", ...without(request.rawHeaders, dropped)];
  if (admitted.authorization !== null) kept.push("Authorization", admitted.authorization);
  if (admitted.cookie !== null) kept.push("Cookie", admitted.cookie);
  if (/(^|,)\s*trailers\s*(,|$)/i.test(String(request.headers.te ?? ""))) kept.push("TE", "trailers");
  kept.push("X-Forwarded-For", request.socket.remoteAddress ?? "unix");
  kept.push("X-Forwarded-Host", request.headers.host ?? "", "X-Forwarded-Proto", scheme);
  if (form === "path") kept.push("X-Forwarded-Prefix", prefix);
  return kept;
}

/** What the client gets of the program's headers. */
export function responseHeaders(response: IncomingMessage, address: PortAddress, asked: { origin: string }): string[] {
  const dropped = new Set([...HOP_BY_HOP, ...named(response.headers.connection)]);
  const kept = without(response.rawHeaders, dropped).slice();
  if (address.form === "host") return filterPairs(kept, (name, value) => (isOurCookie(name, value) ? null : value));
  const moved = filterPairs(kept, (name, value) => moveBelow(name, value, address, asked.origin));
  return [...moved, "Content-Security-Policy", "sandbox", "X-Content-Type-Options", "nosniff"];
}

/** In the path form, a program's paths stand below the prefix: else it could send a client that follows it, key and all, to a call of the API. */
function moveBelow(name: string, value: string, { prefix, target }: PortAddress, origin: string): string | null {
  if (OF_THE_ORIGIN.includes(name) || isOurCookie(name, value)) return null;
  if (name === "set-cookie") return moveCookie(value, prefix);
  if (name === "location" || name === "content-location") return moveLocation(value, prefix + target, prefix, origin);
  return value;
}

/** Everything that resolves to this server is put below the prefix; another host's address stays. */
export function moveLocation(location: string, base: string, prefix: string, origin: string): string | null {
  const resolved = URL.canParse(location, origin + base) ? new URL(location, origin + base) : null;
  if (resolved === null) return null;
  if (resolved.host !== new URL(origin).host) return location;
  const path = resolved.pathname + resolved.search + resolved.hash;
  return path.startsWith(`${prefix}/`) ? path : prefix + path;
}

function moveCookie(cookie: string, prefix: string): string {
  const [pair = "", ...attributes] = cookie.split(";");
  const others = attributes.filter((attribute) => !/^\s*(path|domain)\s*(=|$)/i.test(attribute));
  const path = attributes.map((attribute) => /^\s*path\s*=\s*(\/.*?)\s*$/i.exec(attribute)?.[1]).find(Boolean) ?? "/";
  return [pair, ...others, ` Path=${path.startsWith(`${prefix}/`) ? path : prefix + path}`].join(";");
}

function isOurCookie(name: string, value: string): boolean {
  return name === "set-cookie" && value.trimStart().startsWith(`${LINK_NAME}=`);
}

/** The header names that a Connection header takes with it. */
function named(connection: string | undefined): string[] {
  return (connection ?? "").split(",").map((name) => name.trim().toLowerCase());
}

function without(raw: readonly string[], dropped: ReadonlySet<string>): string[] {
  return filterPairs(raw, (name, value) => (dropped.has(name) ? null : value));
}

function filterPairs(raw: readonly string[], map: (name: string, value: string) => string | null): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = String(raw[at]);
    const value = map(name.toLowerCase(), String(raw[at + 1]));
    if (value !== null) kept.push(name, value);
  }
  return kept;
}
