import { stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { SandpoolError } from "@sandpool/protocol";
import { type Extract, extract } from "tar-stream";
import { explainDisk, imageFailed, refusedEntry } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import { openPacked } from "../unpack/decompress.ts";
import { type Entry, writeFile } from "../unpack/entries.ts";
import { Meter, tooLarge } from "../unpack/meter.ts";
import { splitPath } from "../unpack/path.ts";

/** The files of a saved image by their names in its tar; each is kept under a number, so no name of it reaches the disk. */
export type SavedFiles = ReadonlyMap<string, string>;

/** A saved image has no such folder at its top, a root file system hardly lacks all of them. */
const rootFolders = new Set(["bin", "boot", "dev", "etc", "home", "lib", "opt", "root", "sbin", "usr", "var"]);

/** By the marks that each has at its top; a root file system, which has none, is read no further than it takes to know it. */
export async function findKind(
  path: string,
  limits: ImageLimits,
  folder: string,
  signal: AbortSignal,
): Promise<"layout" | "save" | "rootfs"> {
  const marks = new Set<string>();
  const known = new AbortController();
  const either = AbortSignal.any([signal, known.signal]);
  const look = async (entry: Entry, name: string): Promise<void> => {
    if (name === "oci-layout" || name === "index.json" || name === "manifest.json") marks.add(name);
    if (rootFolders.has(name.split("/", 1)[0] ?? "")) known.abort();
    entry.resume();
  };
  await readTar(path, limits, folder, either, look).catch((error: unknown) => {
    if (signal.aborted || !known.signal.aborted) throw error;
  });
  if (known.signal.aborted) return "rootfs";
  if (marks.has("oci-layout") && marks.has("index.json")) return "layout";
  return marks.has("manifest.json") ? "save" : "rootfs";
}

/** Writes the regular files of a saved image to `folder`. Links in it stand for a file that came before. */
export async function spreadFiles(
  path: string,
  folder: string,
  limits: ImageLimits,
  signal: AbortSignal,
): Promise<SavedFiles> {
  const files = new Map<string, string>();
  await readTar(path, limits, folder, signal, async (entry, name) => {
    const { type, linkname } = entry.header;
    if (type === "directory") return void entry.resume();
    if (type === "symlink" || type === "link") {
      // Old versions of docker write one layer once and link to it.
      const base = type === "link" ? "" : name.slice(0, name.lastIndexOf("/") + 1);
      const target = files.get(join("/", base, linkname ?? "").slice(1));
      if (target === undefined) throw refusedEntry("a link names no file before it", name);
      files.set(name, target);
      return void entry.resume();
    }
    if (type !== "file" && type !== "contiguous-file")
      throw refusedEntry(`it is of type ${JSON.stringify(type)}`, name);
    if (files.has(name)) throw refusedEntry("a path stands in the tar twice", name);
    const target = join(folder, String(files.size));
    await writeFile(target, entry);
    files.set(name, target);
  });
  return files;
}

async function readTar(
  path: string,
  limits: ImageLimits,
  folder: string,
  signal: AbortSignal,
  each: (entry: Entry, name: string) => Promise<void>,
): Promise<void> {
  const { size } = await stat(path);
  const [source, decompress] = await openPacked(path);
  const meter = new Meter({ folder, packedBytes: size, limits, use: { bytes: 0, entries: 0 } });
  const tar = extract();
  const reading = readEntries(tar, limits, each);
  reading.catch(() => {});
  try {
    await pipeline(source, decompress, meter, tar, { signal });
    await reading;
  } catch (error) {
    tar.destroy();
    const named = await reading.then(
      () => error,
      (reason: unknown) => reason,
    );
    signal.throwIfAborted();
    throw [named, error].map(explainDisk).find((one) => one instanceof SandpoolError) ?? unreadable(error);
  }
}

async function readEntries(
  tar: Extract,
  limits: ImageLimits,
  each: (entry: Entry, name: string) => Promise<void>,
): Promise<void> {
  let entries = 0;
  for await (const entry of tar) {
    entries += 1;
    if (entries > limits.entries) throw tooLarge(`it has over ${limits.entries} entries`);
    await each(entry, splitPath(entry.header.name, limits).join("/"));
  }
}

function unreadable(error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return imageFailed(`What was received is not a readable tar: ${JSON.stringify(reason.slice(0, 200))}.`, {
    hint: "Expected a tar, plain or compressed with gzip or zstd: an OCI layout, a docker save, or a root file system.",
    cause: error,
  });
}
