import { refusedEntry } from "../failed.ts";
import type { Tree } from "./tree.ts";

const prefix = ".wh.";
const opaque = ".wh..wh..opq";

/** What an entry's name means by the OCI layer rules; null: an ordinary entry. */
export function whiteoutOf(
  last: string,
  name: string,
): { kind: "opaque" | "ignored" } | { kind: "removes"; last: string } | null {
  if (!last.startsWith(prefix)) return null;
  if (last === opaque) return { kind: "opaque" };
  // Notes of the file system that once wrote such layers.
  if (last.startsWith(`${prefix}${prefix}`)) return { kind: "ignored" };
  const removed = last.slice(prefix.length);
  if (removed === "" || removed === "." || removed === "..") throw refusedEntry("a whiteout names no file", name);
  return { kind: "removes", last: removed };
}

/** Removes what lower layers brought at a path; what this layer made stays, whichever of the two its tar tells first. */
export async function removeLower(tree: Tree, path: string, made: ReadonlySet<string>): Promise<void> {
  if (!made.has(path)) return await tree.remove(path);
  if ((await tree.kind(path)) === "folder") await emptyLower(tree, path, made);
}

export async function emptyLower(tree: Tree, path: string, made: ReadonlySet<string>): Promise<void> {
  if ((await tree.kind(path)) !== "folder") return;
  for (const child of await tree.children(path)) await removeLower(tree, child, made);
}
