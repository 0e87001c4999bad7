import { lutimes, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { SandpoolError } from "@sandpool/protocol";
import { type Extract, extract } from "tar-stream";
import { explainDisk, imageFailed, refusedEntry } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import { openPacked } from "./decompress.ts";
import { type Entry, makeHardLink, makeLink, ownerOf, setFolder, writeFile } from "./entries.ts";
import { Meter, tooLarge, type Use } from "./meter.ts";
import { splitPath } from "./path.ts";
import type { Tree } from "./tree.ts";
import { emptyLower, removeLower, whiteoutOf } from "./whiteouts.ts";

export interface LayerInput {
  tree: Tree;
  /** The layer's file, compressed or not. */
  path: string;
  /** Whether names that begin with `.wh.` remove what lower layers brought; false for a plain root file system. */
  whiteouts: boolean;
  limits: ImageLimits;
  /** Of all layers of this image; counted on. */
  use: Use;
  signal: AbortSignal;
}

/** Covered by what every machine mounts there, so that nothing of the image is seen below. */
export const coveredFolders = ["dev", "proc", "sys", "run", "sandpool"];

/**
 * Unpacks a layer over what is in the tree. Devices, FIFOs, sparse files and unknown kinds refuse the image.
 *
 * @returns `sha256:…` of its tar, the layer's diff id
 */
export async function unpackLayer(input: LayerInput): Promise<string> {
  const { tree, path, limits, use, signal } = input;
  const { size } = await stat(path);
  const [source, decompress] = await openPacked(path);
  const meter = new Meter({ folder: tree.root, packedBytes: size, limits, use });
  const tar = extract();
  const unpacking = unpackEntries(tar, input);
  unpacking.catch(() => {});
  try {
    await pipeline(source, decompress, meter, tar, { signal });
    await unpacking;
  } catch (error) {
    tar.destroy();
    // The reader of entries names the entry; the pipe only notices that it was cut.
    const named = await unpacking.then(
      () => error,
      (reason: unknown) => reason,
    );
    signal.throwIfAborted();
    throw [named, error].map(explainDisk).find((one) => one instanceof SandpoolError) ?? unreadable(error);
  }
  return meter.digest();
}

async function unpackEntries(tar: Extract, input: LayerInput): Promise<void> {
  /** Real paths that this layer made, and the folders above them. */
  const made = new Set<string>();
  const folders: [path: string, mtimeSeconds: number][] = [];
  for await (const entry of tar) {
    input.use.entries += 1;
    if (input.use.entries > input.limits.entries) throw tooLarge(`it has over ${input.limits.entries} entries`);
    await unpackEntry(entry, input, made, folders);
    // An entry whose content was not wanted.
    for await (const _chunk of entry);
  }
  for (const [path, seconds] of folders) {
    if ((await input.tree.kind(path)) === "folder") await lutimes(input.tree.onDisk(path), seconds, seconds);
  }
}

async function unpackEntry(
  entry: Entry,
  input: LayerInput,
  made: Set<string>,
  folders: [path: string, mtimeSeconds: number][],
): Promise<void> {
  const { tree, limits } = input;
  const { name } = entry.header;
  const parts = splitPath(name, limits);
  const last = parts.at(-1);
  if (last === undefined || isCovered(parts.join("/"))) return;
  const place = await tree.place(parts, name);
  if (isCovered(place)) return;
  const whiteout = input.whiteouts ? whiteoutOf(last, name) : null;
  const folder = place.slice(0, Math.max(0, place.length - last.length - 1));
  if (whiteout?.kind === "removes") {
    await removeLower(tree, folder === "" ? whiteout.last : `${folder}/${whiteout.last}`, made);
  } else if (whiteout?.kind === "opaque") {
    await emptyLower(tree, folder, made);
  } else if (whiteout === null) {
    await makeEntry(entry, tree, place, limits);
    if (entry.header.type === "directory") folders.push([place, ownerOf(entry).mtimeSeconds]);
    note(made, place);
  }
}

async function makeEntry(entry: Entry, tree: Tree, place: string, limits: ImageLimits): Promise<void> {
  const { type, name, pax } = entry.header;
  if (Object.keys(pax ?? {}).some((key) => key.startsWith("GNU.sparse.")))
    throw refusedEntry("it is a sparse file, whose real content this reader would not give", name);
  if (type === "directory") {
    const kind = await tree.kind(place);
    if (kind !== "folder") {
      await tree.remove(place);
      await tree.makeFolder(place);
    }
    return await setFolder(tree.onDisk(place), entry);
  }
  if (type === "link") return await makeHardLink(tree, place, entry, limits);
  if (type !== "file" && type !== "contiguous-file" && type !== "symlink")
    throw refusedEntry(`it is of type ${JSON.stringify(type ?? "unknown")}`, name);
  const make = type === "symlink" ? makeLink : writeFile;
  await make(tree.onDisk(place), entry).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    await tree.remove(place);
    await make(tree.onDisk(place), entry);
  });
}

function isCovered(path: string): boolean {
  return coveredFolders.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

function note(made: Set<string>, path: string): void {
  for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
    const part = path.slice(0, end);
    if (made.has(part)) return;
    made.add(part);
  }
}

function unreadable(error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return imageFailed(`A layer is not a readable tar: ${JSON.stringify(reason.slice(0, 200))}.`, {
    hint: "Expected a tar, plain or compressed with gzip or zstd; save or download it again.",
    cause: error,
  });
}
