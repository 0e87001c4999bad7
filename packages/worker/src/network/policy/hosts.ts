import { isIP } from "node:net";

/** A host in the one form in which it is compared. */
export type NormalHost = { kind: "name"; name: string } | { kind: "address"; address: string };

/** An entry of an `egress` list. */
export interface EgressHost {
  host: NormalHost;
  /** `*.example.com`: every name below it, not itself. */
  wildcard: boolean;
  /** Null: 443 and 80. */
  port: number | null;
}

const labelForm = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/**
 * Lower case, IDNA in ASCII, no final dot; every way to write an IPv4 address (`2130706433`, `0x7f.1`) as four numbers. Null for what is
 * no host, and for names of one label, which only a search domain could complete.
 */
export function normalizeHost(text: string): NormalHost | null {
  const bracketed = /^\[([0-9a-fA-F:.]+)\]$/.exec(text)?.[1];
  const plain = bracketed ?? text;
  if (bracketed !== undefined || plain.includes(":")) {
    // The parser's form: 0:0:0:0:0:0:0:1 is ::1.
    const address = isIP(plain) === 6 ? URL.parse(`http://[${plain}]/`)?.hostname.slice(1, -1) : undefined;
    return address === undefined ? null : { kind: "address", address };
  }
  if (plain.length > 1024 || !/^[^\s/:@?#%\\[\]]+$/.test(plain)) return null;
  const parsed = URL.parse(`http://${plain}/`)?.hostname ?? "";
  const name = parsed.endsWith(".") ? parsed.slice(0, -1) : parsed;
  if (isIP(name) === 4) return { kind: "address", address: name };
  const labels = name.split(".");
  if (name.length > 253 || labels.length < 2 || !labels.every((label) => labelForm.test(label))) return null;
  return { kind: "name", name };
}

/**
 * Reads an entry: `example.com`, `*.example.com`, an address, each with `:port` perhaps.
 * @throws TypeError saying what an entry may be
 */
export function parseEgressHost(text: string): EgressHost {
  const wildcard = text.startsWith("*.");
  const rest = wildcard ? text.slice(2) : text;
  const found = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(rest);
  const port = found?.[2] === undefined ? null : Number(found[2]);
  const host = normalizeHost(isIP(rest) === 6 ? rest : (found?.[1] ?? ""));
  const isPort = port === null || (port >= 1 && port <= 65_535);
  if (host === null || !isPort || (wildcard && host.kind === "address")) {
    throw new TypeError(
      `egress: ${JSON.stringify(text)} is none of example.com, *.example.com, an address, each with :port perhaps (443 and 80 without)`,
    );
  }
  return { host, wildcard, port };
}

/** Whether the list has the host with this port; `port` null: with any. */
export function allowsHost(list: readonly EgressHost[], host: NormalHost, port: number | null): boolean {
  return list.some((entry) => matchesHost(entry, host) && matchesPort(entry, port));
}

function matchesHost({ host: listed, wildcard }: EgressHost, host: NormalHost): boolean {
  if (listed.kind === "address" || host.kind === "address") {
    return listed.kind === "address" && host.kind === "address" && listed.address === host.address;
  }
  return wildcard ? host.name.endsWith(`.${listed.name}`) : host.name === listed.name;
}

function matchesPort({ port: listed }: EgressHost, port: number | null): boolean {
  if (port === null) return true;
  return listed === null ? port === 443 || port === 80 : listed === port;
}
