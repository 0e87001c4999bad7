import { readdir, readFile } from "node:fs/promises";
import { imageFailed } from "../failed.ts";

/** Where Debian's packages come from. */
export interface DebianMirror {
  packages: string;
  /** Null: the mirror has no security suites that we know of. */
  security: string | null;
}

const folder = "/etc/apt";

/**
 * The mirror of `SANDPOOL_DEBIAN_MIRROR` (and `SANDPOOL_DEBIAN_SECURITY_MIRROR`), else the one this host's own apt uses where the host is Debian.
 *
 * @throws `image_failed`, whose hint says what to set
 */
export async function findDebianMirror(environ: NodeJS.ProcessEnv = process.env): Promise<DebianMirror> {
  const named = environ.SANDPOOL_DEBIAN_MIRROR;
  if (named !== undefined && named !== "")
    return { packages: checkAddress(named), security: checkOptional(environ.SANDPOOL_DEBIAN_SECURITY_MIRROR) };
  const sources = await readSources();
  const packages = sources.find(({ uri, suite }) => /\/debian\/?$/.test(uri) && !suite.includes("security"))?.uri;
  if (packages !== undefined) {
    const security = sources.find(({ suite }) => suite.endsWith("-security"))?.uri ?? null;
    return { packages: checkAddress(packages), security };
  }
  throw imageFailed("This host's apt names no mirror of Debian, so there is nowhere to take packages from.", {
    hint: "Set SANDPOOL_DEBIAN_MIRROR to the address of a mirror (it ends in /debian) where the server runs.",
  });
}

/** Lines of a `sources.list`; apt takes signatures of Debian's own keys only. */
export function sourceLines({ packages, security }: DebianMirror, release: string, keyring: string): string[] {
  const line = (uri: string, suite: string): string => `deb [signed-by=${keyring}] ${uri} ${suite} main`;
  return [
    line(packages, release),
    line(packages, `${release}-updates`),
    ...(security === null ? [] : [line(security, `${release}-security`)]),
  ];
}

async function readSources(): Promise<{ uri: string; suite: string }[]> {
  const parts = await readdir(`${folder}/sources.list.d`).catch(() => []);
  const files = [`${folder}/sources.list`, ...parts.sort().map((name) => `${folder}/sources.list.d/${name}`)];
  const found = await Promise.all(
    files.map(async (file) => {
      const text = await readFile(file, "utf8").catch(() => "");
      return file.endsWith(".sources") ? readStanzas(text) : readLines(text);
    }),
  );
  return found.flat();
}

function readLines(text: string): { uri: string; suite: string }[] {
  return [...text.matchAll(/^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)/gm)].map((match) => {
    return { uri: match[1] ?? "", suite: match[2] ?? "" };
  });
}

function readStanzas(text: string): { uri: string; suite: string }[] {
  return text.split(/\n\s*\n/).flatMap((stanza) => {
    const words = (field: string): string[] =>
      new RegExp(`^${field}:[ \\t]*(.*)$`, "im").exec(stanza)?.[1]?.split(/\s+/) ?? [];
    return words("URIs").flatMap((uri) => words("Suites").map((suite) => ({ uri, suite })));
  });
}

function checkOptional(text: string | undefined): string | null {
  return text === undefined || text === "" ? null : checkAddress(text);
}

function checkAddress(text: string): string {
  if (/^https?:\/\/[\w.:[\]-]+\/[\w./~-]*$/.test(text)) return text;
  throw imageFailed(`The mirror ${JSON.stringify(text)} is no plain http or https address.`, {
    hint: "Set SANDPOOL_DEBIAN_MIRROR to an address that ends in /debian.",
  });
}
