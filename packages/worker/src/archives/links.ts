import { lstat, readlink, symlink } from "node:fs/promises";
import { join } from "node:path";
import { invalidArchive } from "./invalid.ts";

export interface ArchiveLink {
  parts: string[];
  target: string;
}

/** Linux refuses a path with more than 40 links; so do we. */
const mostHops = 40;

/**
 * Makes the archive's symbolic links, after every file and folder stands, and then follows each on disk: one whose target leaves the root by
 * any step, through whatever other links, refuses the archive.
 */
export async function placeLinks(root: string, links: readonly ArchiveLink[]): Promise<void> {
  for (const link of links) {
    const name = link.parts.join("/");
    if (link.target === "" || link.target.startsWith("/")) {
      throw invalidArchive(`a symbolic link points to ${JSON.stringify(link.target)}; targets must be relative`, name);
    }
    if (link.target.includes("\0")) throw invalidArchive("a symbolic link's target has a NUL byte", name);
    if (Buffer.byteLength(link.target) > 4095) throw invalidArchive("a symbolic link's target is too long", name);
    await symlink(link.target, join(root, ...link.parts));
  }
  for (const link of links) await followInside(root, link);
}

async function followInside(root: string, link: ArchiveLink): Promise<void> {
  const name = link.parts.join("/");
  let at: string[] = link.parts.slice(0, -1);
  let todo = link.target.split("/");
  let hops = 1;
  while (todo.length > 0) {
    const part = todo.shift();
    if (part === undefined || part === "" || part === ".") continue;
    if (part === "..") {
      if (at.length === 0) throw invalidArchive("a symbolic link points outside the archive", name);
      at = at.slice(0, -1);
      continue;
    }
    const target = await linkTarget(join(root, ...at, part));
    if (target === null) {
      at = [...at, part];
      continue;
    }
    hops += 1;
    if (hops > mostHops) throw invalidArchive(`a symbolic link passes through more than ${mostHops} others`, name);
    todo = [...target.split("/"), ...todo];
  }
}

async function linkTarget(path: string): Promise<string | null> {
  const stat = await lstat(path).catch(() => null);
  return stat?.isSymbolicLink() ? readlink(path) : null;
}
