import { createHash, randomUUID } from "node:crypto";
import { access, chmod, mkdir, readFile, rename, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { formatSize } from "@sandpool/protocol";
import { fail } from "../fail.ts";
import type { ArchiveStore } from "../worker.ts";
import { extractArchive } from "./extract.ts";
import type { ArchiveLimits } from "./limits.ts";
import { receiveArchive } from "./receive.ts";

/** The store as the worker's own parts see it. */
export interface LocalArchiveStore extends ArchiveStore {
  /** The unpacked, read-only folder. @throws `archive_not_found`, for another owner's archive too */
  tree(owner: string, sha256: string): Promise<string>;
}

interface Summary {
  sha256: string;
  bytes: number;
  files: number;
}

/**
 * Archives under `folder`: `trees/<sha256>/{tree,archive.json}`, published whole by one rename, and a mark for each owner that uploaded it.
 * Another owner with the same content must upload it too, so an answer never tells what others have.
 */
export async function openArchiveStore(folder: string, limits: ArchiveLimits): Promise<LocalArchiveStore> {
  const trees = join(folder, "trees");
  const owners = join(folder, "owners");
  const incoming = join(folder, "incoming");
  await rm(incoming, { recursive: true, force: true });
  for (const path of [trees, owners, incoming]) await mkdir(path, { recursive: true, mode: 0o711 });
  const markOf = (owner: string, sha256: string): string => join(owners, ownerFolder(owner), sha256);

  const has = async (owner: string, sha256: string): Promise<boolean> =>
    isHash(sha256) && (await exists(markOf(owner, sha256))) && (await exists(join(trees, sha256)));

  const put = async (owner: string, sha256: string, body: NodeJS.ReadableStream): Promise<Summary> => {
    if (!isHash(sha256)) throw notAHash(sha256);
    await checkFreeDisk(incoming, limits.freeDiskBytes);
    const work = join(incoming, randomUUID());
    await mkdir(join(work, "published", "tree"), { recursive: true });
    for (const path of ["published", "published/tree"]) await chmod(join(work, path), 0o755);
    try {
      const summary = await unpackUpload(work, sha256, body, limits);
      await publish(join(work, "published"), join(trees, sha256));
      await mkdir(join(owners, ownerFolder(owner)), { recursive: true, mode: 0o700 });
      await writeFile(markOf(owner, sha256), "");
      return summary;
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === "ENOSPC" ? diskFull(0, limits.freeDiskBytes, error) : error;
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  };

  const tree = async (owner: string, sha256: string): Promise<string> => {
    if (await has(owner, sha256)) return join(trees, sha256, "tree");
    throw fail("archive_not_found", `There is no archive ${JSON.stringify(sha256.slice(0, 80))}.`, {
      hint: "Upload it with PUT /v1/archives/{sha256} first; the clients do so by themselves.",
      details: { sha256: sha256.slice(0, 80) },
    });
  };

  return { has, put, tree };
}

async function checkFreeDisk(folder: string, neededBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < neededBytes) throw diskFull(bavail * bsize, neededBytes);
}

function diskFull(freeBytes: number, neededBytes: number, cause?: unknown): Error {
  const message = `The server's disk has ${formatSize(freeBytes)} free; uploads need at least ${formatSize(neededBytes)}.`;
  return fail("disk_full", message, {
    hint: "Free space in the server's data folder, or move it to a larger disk.",
    details: { free_bytes: freeBytes, needed_bytes: neededBytes },
    cause,
  });
}

async function unpackUpload(
  work: string,
  sha256: string,
  body: NodeJS.ReadableStream,
  limits: ArchiveLimits,
): Promise<Summary> {
  const packed = join(work, "packed");
  const { bytes } = await receiveArchive(body, packed, sha256, limits.packedBytes);
  const { files } = await extractArchive(packed, join(work, "published", "tree"), bytes, limits);
  const summary = { sha256, bytes, files };
  await writeFile(join(work, "published", "archive.json"), JSON.stringify(summary));
  return summary;
}

async function publish(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    // The same content is there already, perhaps since a moment ago: equal hashes, so either will do.
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
    await readFile(join(to, "archive.json"));
  }
}

function notAHash(received: string): Error {
  return fail(
    "invalid_request",
    `The archive's name is ${JSON.stringify(received.slice(0, 80))}; a SHA-256 in 64 lower-case hexadecimal digits was expected.`,
  );
}

function isHash(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

function ownerFolder(owner: string): string {
  return createHash("sha256").update(owner).digest("hex").slice(0, 32);
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
