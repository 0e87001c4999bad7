import { refusedEntry } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";

/**
 * Splits the path of a layer's entry, which is relative to the machine's root however it begins.
 *
 * @example splitPath("./usr/bin/env", limits) // ["usr", "bin", "env"]
 */
export function splitPath(name: string, limits: ImageLimits): string[] {
  if (Buffer.byteLength(name) > limits.pathBytes) throw refusedEntry(`a path has over ${limits.pathBytes} bytes`, name);
  if (name.includes("\0") || name.includes("\ufffd")) throw refusedEntry("a path has a NUL byte or is not UTF-8", name);
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  for (const part of parts) {
    if (part === "..") throw refusedEntry('a path has the part ".."', name);
    if (Buffer.byteLength(part) > 255) throw refusedEntry("a name is over 255 bytes", name);
  }
  if (parts.length > limits.depth) throw refusedEntry(`a path is over ${limits.depth} folders deep`, name);
  return parts;
}
