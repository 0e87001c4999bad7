import type { IncomingMessage } from "node:http";

/** What a request to a machine's port asks for, before anything is known about who asks. */
export interface PortAddress {
  /** By host: `http://8000-box.localhost:7070/`. By path: `/v1/machines/box/ports/8000/`. */
  form: "host" | "path";
  /** Name or id. */
  machine: string;
  port: number;
  /** Path and query for the program inside, byte for byte. */
  target: string;
  /** What stands before `target` in the asked address; empty in the host form. */
  prefix: string;
}

/** How the server itself is reached. */
export interface Listening {
  scheme: "http" | "https";
  port: number;
}

const HOST = /^([1-9][0-9]{0,4})-([a-z][a-z0-9-]{0,39})\.localhost(?::([0-9]{1,5}))?$/;
const PATH = /^(\/v1\/machines\/([a-z][a-z0-9-]{0,39})\/ports\/([1-9][0-9]{0,4}))\//;
const LINK_CALL = /^\/link(?:\?|$)/;
const HIGHEST_PORT = 65_535;

/**
 * The machine and port that a request's Host header or path names; null where the request is for the API.
 * A Host of a machine's is never the API's, whatever the path says.
 */
export function readPortAddress(request: IncomingMessage, listening: Listening): PortAddress | null {
  const { url = "", method = "" } = request;
  const byHost = matchPortHost(request.headers.host, listening);
  if (byHost !== null) return { form: "host", ...byHost, target: url, prefix: "" };
  return matchPortPath(method, url);
}

/** Null for any other Host, also for one that has not this server's port. */
export function matchPortHost(
  host: string | undefined,
  { scheme, port: own }: Listening,
): { machine: string; port: number } | null {
  const match = HOST.exec(host?.toLowerCase() ?? "");
  if (match === null) return null;
  const [, port, machine, asked] = match;
  if (Number(asked ?? standardPort(scheme)) !== own || Number(port) > HIGHEST_PORT) return null;
  return { machine: String(machine), port: Number(port) };
}

/** Null for what is the API's own: `…/ports/8000` itself, and making and revoking links below it. */
export function matchPortPath(method: string, url: string): PortAddress | null {
  const match = PATH.exec(url);
  if (match === null || Number(match[3]) > HIGHEST_PORT) return null;
  const prefix = String(match[1]);
  const target = url.slice(prefix.length);
  if ((method === "POST" || method === "DELETE") && LINK_CALL.test(target)) return null;
  return { form: "path", machine: String(match[2]), port: Number(match[3]), target, prefix };
}

/** `http://8000-box.localhost:7070/`. */
export function hostAddress(machine: string, port: number, { scheme, port: own }: Listening): string {
  const suffix = own === standardPort(scheme) ? "" : `:${own}`;
  return `${scheme}://${port}-${machine}.localhost${suffix}/`;
}

function standardPort(scheme: "http" | "https"): number {
  return scheme === "https" ? 443 : 80;
}

/** Whether a request is for a program, as far as it can be told without knowing this server's own port. */
export function isForPort({ method = "", url = "", headers }: IncomingMessage): boolean {
  return HOST.test(headers.host?.toLowerCase() ?? "") || matchPortPath(method, url) !== null;
}

/** Whether a request to a port asks for an upgrade that can be passed on: a body and an upgrade at once are not. */
export function asksUpgrade({ headers }: IncomingMessage): boolean {
  const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
  return headers.upgrade !== undefined && /(^|,)\s*upgrade\s*(,|$)/i.test(headers.connection ?? "") && !hasBody;
}
