import { lstat, readdir, readlink, realpath } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { SandpoolError } from "../errors.ts";

export type ArchiveEntry =
  | { kind: "folder"; path: string }
  | { kind: "link"; path: string; target: string }
  | { kind: "file"; path: string; executable: boolean; source: string | Uint8Array };

const LEFT_OUT = new Set([".git", "__pycache__", ".venv", "node_modules"]);

/**
 * The entries of a folder in the archive's order (bytes of the path), without `.git`, `__pycache__`, `.venv`, `node_modules`
 * and `*.pyc`. Refuses links that lead outside and anything that is neither file, folder nor link.
 */
export async function collectFolder(root: string): Promise<ArchiveEntry[]> {
  const entries: ArchiveEntry[] = [];
  await collectInto(entries, root, "");
  return sortEntries(entries);
}

/** Sorts by the bytes of the path, as the Python client does. */
export function sortEntries(entries: ArchiveEntry[]): ArchiveEntry[] {
  return entries.sort((left, right) => Buffer.compare(Buffer.from(left.path), Buffer.from(right.path)));
}

async function collectInto(entries: ArchiveEntry[], root: string, folder: string): Promise<void> {
  for (const name of await readdir(join(root, folder))) {
    if (LEFT_OUT.has(name) || name.endsWith(".pyc")) continue;
    const path = folder === "" ? name : `${folder}/${name}`;
    const source = join(root, path);
    const facts = await lstat(source);
    if (facts.isSymbolicLink()) entries.push({ kind: "link", path, target: await readInnerLink(root, path) });
    else if (facts.isFile()) entries.push({ kind: "file", path, executable: (facts.mode & 0o100) !== 0, source });
    else if (facts.isDirectory()) {
      entries.push({ kind: "folder", path });
      await collectInto(entries, root, path);
    } else {
      throw new SandpoolError(
        "bad_environment",
        `${source} is a device, socket or FIFO; expected files, folders and links.`,
        {
          hint: "Remove it from the environment's folder or move it elsewhere.",
        },
      );
    }
  }
}

async function readInnerLink(root: string, path: string): Promise<string> {
  // Read as text and followed on disk: a link through another link can look inner and lead out.
  const target = await readlink(join(root, path));
  const written = posix.normalize(posix.join(dirname(path), target));
  const followed = await realpath(join(root, path)).catch(() => null);
  const escapes = written === ".." || written.startsWith("../") || posix.isAbsolute(target);
  const leaves = followed !== null && followed !== root && !followed.startsWith(`${root}/`);
  if (!escapes && !leaves) return target;
  throw new SandpoolError(
    "bad_environment",
    `The link ${join(root, path)} leads to ${target}, outside the environment's folder.`,
    { hint: "Copy what it points to into the folder, or make it a relative link inside." },
  );
}
