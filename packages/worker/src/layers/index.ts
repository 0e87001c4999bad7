import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fail } from "../fail.ts";

const run = promisify(execFile);

/** The package indexes of this host. */
export interface PackageIndex {
  default: string;
  extra: string[];
  /** Configured on this host by its operator, not the one `uv` has built in. */
  configured: boolean;
}

/**
 * The package index configured for uv or pip on this host; with none, the one `uv` names as its default in its own help text.
 * Reads UV_DEFAULT_INDEX, UV_INDEX_URL, PIP_INDEX_URL, pip's configuration files, and the variables for further indexes.
 */
export async function findPackageIndex(
  uvPath: string,
  environ: NodeJS.ProcessEnv = process.env,
): Promise<PackageIndex> {
  const extra = [environ.UV_INDEX, environ.UV_EXTRA_INDEX_URL, environ.PIP_EXTRA_INDEX_URL]
    .flatMap((text) => (text ?? "").split(/\s+/))
    .map((text) => text.replace(/^[A-Za-z0-9_-]+=(?=https?:)/, ""))
    .filter(isIndexUrl);
  const named = [environ.UV_DEFAULT_INDEX, environ.UV_INDEX_URL, environ.PIP_INDEX_URL].find(isIndexUrl);
  const configured = named ?? (await fromPipConfiguration(environ));
  if (configured !== undefined) return { default: configured, extra, configured: true };
  return { default: await builtInIndex(uvPath), extra, configured: false };
}

async function fromPipConfiguration(environ: NodeJS.ProcessEnv): Promise<string | undefined> {
  const home = homedir();
  const files = [
    environ.PIP_CONFIG_FILE,
    join(environ.XDG_CONFIG_HOME ?? join(home, ".config"), "pip/pip.conf"),
    join(home, ".pip/pip.conf"),
    "/etc/pip.conf",
  ];
  for (const file of files) {
    if (file === undefined || file === "") continue;
    const text = await readFile(file, "utf8").catch(() => "");
    const found = /^\s*index-url\s*[=:]\s*(\S+)\s*$/m.exec(text)?.[1];
    if (isIndexUrl(found)) return found;
  }
  return undefined;
}

async function builtInIndex(uvPath: string): Promise<string> {
  const { stdout } = await run(uvPath, ["pip", "install", "--help"], { env: { UV_NO_CONFIG: "1" }, timeout: 20_000 });
  const found = /--default-index[\s\S]*?by\s+default:\s*<(https?:\/\/[^>\s]+)>/.exec(stdout)?.[1];
  if (found !== undefined) return found;
  throw fail("dependency_failed", "No package index is configured on this host, and uv's help text names none.", {
    hint: "Set UV_DEFAULT_INDEX to the address of your package index (its /simple page).",
  });
}

function isIndexUrl(text: string | undefined): text is string {
  return text !== undefined && /^https?:\/\/\S+$/.test(text);
}
