import { Agent, request } from "undici";
import type { PackageIndex } from "./index.ts";

/** A host and port that an install may reach. */
export interface AllowedHost {
  host: string;
  port: number;
  scheme: "https" | "http";
  /** Private, loopback and link-local addresses are answers too: the operator named this host. */
  privateAddresses: boolean;
}

/** Pages of this many wanted packages are read, and always that of the one which builds most others; an index keeps its files on one or two hosts. */
const mostPages = 16;
const builder = "setuptools";
const pageTimeoutMs = 15_000;
const pageLimitBytes = 64 * 1024 * 1024;
const pageTypes = "application/vnd.pypi.simple.v1+json, text/html;q=0.1";

/**
 * Where an install may connect to: the indexes, and the hosts that their own pages link files of the wanted packages on.
 *
 * @param privateHosts host names whose private addresses the operator allows
 */
export async function findAllowedHosts(
  index: PackageIndex,
  wanted: readonly string[],
  privateHosts: readonly string[],
  certificates: string | null,
  signal: AbortSignal,
): Promise<AllowedHost[]> {
  const allowed = new Map<string, AllowedHost>();
  const add = (url: URL, listed: boolean): void => {
    const scheme = url.protocol === "http:" ? "http" : "https";
    const port = url.port === "" ? (scheme === "http" ? 80 : 443) : Number(url.port);
    const host = url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
    const key = `${host}:${port}`;
    if (!allowed.has(key))
      allowed.set(key, { host, port, scheme, privateAddresses: listed || privateHosts.includes(host) });
  };
  for (const address of [index.default, ...index.extra])
    add(new URL(address), index.configured || address !== index.default);
  const agent = new Agent({ connect: certificates === null ? {} : { ca: certificates } });
  try {
    const pages = [...wanted.slice(0, mostPages), builder].flatMap((name) =>
      [index.default, ...index.extra].map((base) => pageOf(base, name)),
    );
    const links = await Promise.all(pages.map((page) => linkedFiles(page, agent, signal)));
    for (const link of links.flat()) add(link, false);
  } finally {
    await agent.destroy();
  }
  return [...allowed.values()];
}

function pageOf(index: string, name: string): URL {
  const base = new URL(index.endsWith("/") ? index : `${index}/`);
  return new URL(`${name.toLowerCase().replace(/[-_.]+/g, "-")}/`, base);
}

/** A page that cannot be read allows nothing; uv then says why it could not be read. */
async function linkedFiles(page: URL, agent: Agent, signal: AbortSignal): Promise<URL[]> {
  try {
    const headers: Record<string, string> = { accept: pageTypes };
    if (page.username !== "") {
      const credentials = `${decodeURIComponent(page.username)}:${decodeURIComponent(page.password)}`;
      headers.authorization = `Basic ${Buffer.from(credentials).toString("base64")}`;
    }
    const bare = new URL(page);
    bare.username = "";
    bare.password = "";
    const reply = await request(bare, {
      dispatcher: agent,
      headers,
      signal: AbortSignal.any([signal, AbortSignal.timeout(pageTimeoutMs)]),
    });
    if (reply.statusCode !== 200) {
      await reply.body.dump();
      return [];
    }
    return oneLinkPerHost(await readText(reply.body), String(reply.headers["content-type"] ?? ""), bare);
  } catch {
    return [];
  }
}

async function readText(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > pageLimitBytes) return "";
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function oneLinkPerHost(text: string, contentType: string, page: URL): URL[] {
  const addresses = contentType.includes("json")
    ? ((JSON.parse(text) as { files?: { url?: unknown }[] }).files ?? []).map((file) => String(file.url))
    : [...text.matchAll(/href\s*=\s*["']([^"'#]+)/gi)].map((match) => match[1] as string);
  const byOrigin = new Map<string, URL>();
  for (const address of addresses) {
    const url = URL.parse(address, page.href);
    if (url !== null && (url.protocol === "https:" || url.protocol === "http:")) byOrigin.set(url.origin, url);
  }
  return [...byOrigin.values()];
}
