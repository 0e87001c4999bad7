import { imageFailed } from "./failed.ts";

/** What an image says about the programs in it. */
export interface ImageConfig {
  environ: Record<string, string>;
  user: string | null;
  cwd: string | null;
  entrypoint: string[];
  command: string[];
}

/** An OCI or Docker image configuration, as far as it concerns us. */
export interface ImageDocument {
  config: ImageConfig;
  /** `sha256:…` of each layer's tar, the lowest first. */
  diffIds: string[];
  /** As Go names it: `amd64`. */
  architecture: string | null;
  os: string | null;
}

const mostVariables = 1000;
const mostCharacters = 128 * 1024;

export const emptyConfig: ImageConfig = { environ: {}, user: null, cwd: null, entrypoint: [], command: [] };

/** Reads a configuration that somebody else wrote: unknown members are left out, odd ones refuse the image. */
export function readImageDocument(bytes: Buffer): ImageDocument {
  const document = asObject(parseJson(bytes, "configuration"), "configuration");
  const config = asObject(document.config ?? {}, "config");
  const rootfs = asObject(document.rootfs ?? {}, "rootfs");
  const diffIds = asStrings(rootfs.diff_ids ?? [], "rootfs.diff_ids");
  for (const diffId of diffIds) if (!isDigest(diffId)) throw notUnderstood("rootfs.diff_ids", diffId);
  return {
    diffIds,
    architecture: asText(document.architecture, "architecture"),
    os: asText(document.os, "os"),
    config: {
      environ: readEnviron(asStrings(config.Env ?? [], "config.Env")),
      user: asText(config.User, "config.User"),
      cwd: readFolder(asText(config.WorkingDir, "config.WorkingDir")),
      entrypoint: asStrings(config.Entrypoint ?? [], "config.Entrypoint"),
      command: asStrings(config.Cmd ?? [], "config.Cmd"),
    },
  };
}

export function parseJson(bytes: Buffer, what: string): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw imageFailed(`The image's ${what} is not JSON.`, { cause });
  }
}

export function asObject(value: unknown, name: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw notUnderstood(name, value);
}

export function isDigest(text: unknown): text is string {
  return typeof text === "string" && /^sha256:[0-9a-f]{64}$/.test(text);
}

function readEnviron(lines: readonly string[]): Record<string, string> {
  if (lines.length > mostVariables) throw notUnderstood("config.Env", `${lines.length} variables`);
  const environ: [string, string][] = [];
  for (const line of lines) {
    const at = line.indexOf("=");
    if (at < 1 || line.includes("\0")) throw notUnderstood("config.Env", line);
    environ.push([line.slice(0, at), line.slice(at + 1)]);
  }
  return Object.fromEntries(environ);
}

function readFolder(text: string | null): string | null {
  if (text === null) return null;
  if (text.includes("\0")) throw notUnderstood("config.WorkingDir", text);
  return text.startsWith("/") ? text : `/${text}`;
}

function asText(value: unknown, name: string): string | null {
  if (value === undefined || value === null || value === "") return null;
  if (typeof value === "string" && value.length <= mostCharacters) return value;
  throw notUnderstood(name, value);
}

function asStrings(value: unknown, name: string): string[] {
  const fits = (item: unknown): boolean => typeof item === "string" && item.length <= mostCharacters;
  if (Array.isArray(value) && value.every(fits)) return value as string[];
  throw notUnderstood(name, value);
}

function notUnderstood(name: string, received: unknown): Error {
  const shown = (JSON.stringify(received) ?? "nothing").slice(0, 200);
  return imageFailed(`The image's ${name} is ${shown}, which is not what the OCI image specification says.`, {
    hint: "Build or save the image again with a current tool.",
    details: { member: name },
  });
}
