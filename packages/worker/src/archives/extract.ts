import { createReadStream, constants as fsConstants } from "node:fs";
import { chmod, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { Transform, type TransformCallback } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createZstdDecompress } from "node:zlib";
import { SandpoolError } from "@sandpool/protocol";
import { type Extract, extract } from "tar-stream";
import { invalidArchive } from "./invalid.ts";
import type { ArchiveLimits } from "./limits.ts";
import { type ArchiveLink, placeLinks } from "./links.ts";
import { splitEntryPath } from "./path.ts";

type Entry = Extract extends AsyncIterable<infer Item> ? Item : never;

/**
 * Unpacks a tar.zst into the empty folder `root`: regular files (0644 or 0755), folders (0755) and symbolic links that stay inside; each path
 * once, nothing through a link. Everything else refuses the whole archive with `archive_invalid` or `archive_too_large`.
 *
 * @returns how many regular files it held
 */
export async function extractArchive(
  packedPath: string,
  root: string,
  packedBytes: number,
  limits: ArchiveLimits,
): Promise<{ files: number }> {
  const tar = extract();
  const unpacking = unpackEntries(tar, root, limits);
  unpacking.catch(() => {});
  try {
    await pipeline(createReadStream(packedPath), createZstdDecompress(), new UnpackedLimit(packedBytes, limits), tar);
    return await unpacking;
  } catch (error) {
    tar.destroy();
    // The reader of entries names the entry; the pipe only notices that it was cut.
    const named = await unpacking.then(
      () => error,
      (reason: unknown) => reason,
    );
    throw named instanceof SandpoolError ? named : error instanceof SandpoolError ? error : unreadable(error);
  }
}

async function unpackEntries(tar: Extract, root: string, limits: ArchiveLimits): Promise<{ files: number }> {
  const seen = new Map<string, "folder" | "implied folder" | "file" | "link">();
  const links: ArchiveLink[] = [];
  let entries = 0;
  let files = 0;
  for await (const entry of tar) {
    entries += 1;
    if (entries > limits.entries) throw invalidArchive(`it has over ${limits.entries} entries`);
    const name = String(entry.header.name);
    const parts = splitEntryPath(name, limits);
    if (parts.length === 0) {
      await discard(entry);
      continue;
    }
    await makeParents(root, parts, seen);
    const path = parts.join("/");
    const before = seen.get(path);
    const type = entry.header.type;
    if (before !== undefined && !(before === "implied folder" && type === "directory")) {
      throw invalidArchive("a path stands in it twice", name);
    }
    if (type === "directory") {
      if (before === undefined) await makeFolder(join(root, ...parts));
      seen.set(path, "folder");
      await discard(entry);
    } else if (type === "file" || type === "contiguous-file") {
      seen.set(path, "file");
      files += 1;
      await writeFile(join(root, ...parts), entry);
    } else if (type === "symlink") {
      seen.set(path, "link");
      links.push({ parts, target: String(entry.header.linkname ?? "") });
      await discard(entry);
    } else {
      throw invalidArchive(
        `an entry is of type ${JSON.stringify(type ?? "unknown")}; files, folders and symbolic links are allowed`,
        name,
      );
    }
  }
  await placeLinks(root, links);
  return { files };
}

async function makeParents(
  root: string,
  parts: readonly string[],
  seen: Map<string, "folder" | "implied folder" | "file" | "link">,
): Promise<void> {
  for (let count = 1; count < parts.length; count += 1) {
    const parent = parts.slice(0, count).join("/");
    const kind = seen.get(parent);
    if (kind === undefined) {
      await makeFolder(join(root, ...parts.slice(0, count)));
      seen.set(parent, "implied folder");
    } else if (kind === "file" || kind === "link") {
      throw invalidArchive(`an entry lies below ${JSON.stringify(parent)}, which is a ${kind} in it`, parts.join("/"));
    }
  }
}

/** The process's umask must not decide what an environment may read. */
async function makeFolder(path: string): Promise<void> {
  await mkdir(path);
  await chmod(path, 0o755);
}

async function writeFile(path: string, entry: Entry): Promise<void> {
  const mode = ((entry.header.mode ?? 0) & 0o111) !== 0 ? 0o755 : 0o644;
  const flags = fsConstants.O_WRONLY | fsConstants.O_CREAT | fsConstants.O_EXCL | fsConstants.O_NOFOLLOW;
  const file = await open(path, flags, mode);
  try {
    for await (const chunk of entry) await file.write(chunk as Buffer);
    await file.chmod(mode);
  } finally {
    await file.close();
  }
}

async function discard(entry: Entry): Promise<void> {
  for await (const _chunk of entry) {
    // Folders and links have no content; what a crafted one carries is dropped.
  }
}

class UnpackedLimit extends Transform {
  readonly #packedBytes: number;
  readonly #limits: ArchiveLimits;
  #unpackedBytes = 0;

  constructor(packedBytes: number, limits: ArchiveLimits) {
    super();
    this.#packedBytes = packedBytes;
    this.#limits = limits;
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    this.#unpackedBytes += chunk.length;
    const { unpackedBytes, ratio, ratioFreeBytes } = this.#limits;
    if (this.#unpackedBytes > unpackedBytes) {
      done(invalidArchive(`it unpacks to over ${unpackedBytes} bytes`));
    } else if (this.#unpackedBytes > ratioFreeBytes && this.#unpackedBytes > this.#packedBytes * ratio) {
      done(invalidArchive(`it unpacks to over ${ratio} times its ${this.#packedBytes} bytes`));
    } else {
      done(null, chunk);
    }
  }
}

function unreadable(error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return invalidArchive(`it is not a readable tar.zst: ${JSON.stringify(reason.slice(0, 200))}`);
}
