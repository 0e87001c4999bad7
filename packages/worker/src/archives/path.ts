import { invalidArchive } from "./invalid.ts";
import type { ArchiveLimits } from "./limits.ts";

const controlCharacter = /\p{Cc}|\ufffd/u;

/**
 * Splits the path of an archive entry into its parts, refusing whatever could leave the archive or confuse a reader of logs.
 *
 * @example splitEntryPath("./pkg/env.py", limits) // ["pkg", "env.py"]
 */
export function splitEntryPath(name: string, limits: ArchiveLimits): string[] {
  const bytes = Buffer.byteLength(name);
  if (bytes > limits.pathBytes) {
    throw invalidArchive(`an entry's path has ${bytes} bytes; at most ${limits.pathBytes} are allowed`, name);
  }
  if (controlCharacter.test(name)) {
    throw invalidArchive("an entry's path has control characters or is not UTF-8", name);
  }
  if (name.startsWith("/")) throw invalidArchive("an entry's path is absolute; paths must be relative", name);
  const trimmed = name.replace(/^(?:\.\/)+/, "").replace(/\/$/, "");
  if (trimmed === "" || trimmed === ".") return [];
  const parts = trimmed.split("/");
  for (const part of parts) checkPart(part, name);
  if (parts.length - 1 > limits.depth) {
    throw invalidArchive(`an entry is ${parts.length - 1} folders deep; at most ${limits.depth} are allowed`, name);
  }
  return parts;
}

function checkPart(part: string, name: string): void {
  if (part === "" || part === "." || part === "..") {
    throw invalidArchive(`an entry's path has the part ${JSON.stringify(part)}; only plain names are allowed`, name);
  }
  if (Buffer.byteLength(part) > 255) throw invalidArchive("a name in an entry's path is over 255 bytes", name);
}
