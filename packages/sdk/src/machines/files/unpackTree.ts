import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { chmod, link, lstat, mkdir, rename, rm, symlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { extract, type Header } from "tar-stream";
import { ConnectionError, SandpoolError } from "../../errors.ts";
import { escapeControl } from "../../escape.ts";

/** What came of a folder; `skipped` were links that lead out of it, and what is neither file, folder nor link. */
export interface UnpackedTree {
  entries: number;
  bytes: number;
  skipped: { path: string; reason: string }[];
}

/**
 * Extracts a tar that a machine has made into a local folder. It may be hostile: no path leaves the folder, nothing is written
 * through a link, links that lead out are not made, and no set-id bit is kept.
 */
export async function unpackTree(tar: Readable, folder: string): Promise<UnpackedTree> {
  await mkdir(folder, { recursive: true });
  const target = new Target(folder);
  const entries = extract();
  let broken: Error | null = null;
  const fed = pipeline(tar, entries as unknown as NodeJS.WritableStream);
  fed.catch((error: Error) => {
    broken ??= error;
  });
  try {
    for await (const entry of entries) {
      await target.place(entry.header, Readable.from(entry));
      entry.resume();
    }
    await fed;
  } catch (error) {
    const cause = broken;
    tar.destroy();
    throw cause === null ? error : incomplete(cause);
  }
  return target.finish();
}

class Target {
  readonly #root: string;
  readonly #report: UnpackedTree = { entries: 0, bytes: 0, skipped: [] };
  readonly #folders = new Set<string>();
  readonly #files = new Set<string>();
  readonly #links: { path: string; to: string }[] = [];
  readonly #modes: { path: string; mode: number; mtime: Date | undefined }[] = [];

  constructor(root: string) {
    this.#root = root;
  }

  async place(header: Header, content: Readable): Promise<void> {
    const path = innerPath(header.name);
    const { type, mode, mtime } = header;
    if (type === "directory") {
      await this.#enter(path);
      if (path !== "" && mode !== undefined) this.#modes.push({ path, mode: (mode & 0o777) | 0o700, mtime });
    } else if (path === "") return;
    else if (type === "symlink") this.#links.push({ path, to: header.linkname ?? "" });
    else if (type === "link") await this.#linkFile(path, innerPath(header.linkname ?? ""));
    else if (type === "file" || type === "contiguous-file") await this.#writeFile(path, header, content);
    else return void this.#report.skipped.push({ path, reason: `it is a ${type}` });
    this.#report.entries += 1;
  }

  /** Links come last, so that nothing of this archive is written through one; then modes, for a folder may be read-only. */
  async finish(): Promise<UnpackedTree> {
    for (const { path, to } of this.#links) {
      if (leadsOut(path, to)) {
        this.#report.entries -= 1;
        this.#report.skipped.push({ path, reason: `it is a link out of the folder, to ${to}` });
      } else await this.#replace(path, (beside) => symlink(to, beside));
    }
    for (const { path, mode, mtime } of this.#modes.reverse()) {
      if (mtime !== undefined) await utimes(join(this.#root, path), mtime, mtime);
      await chmod(join(this.#root, path), mode);
    }
    return this.#report;
  }

  async #writeFile(path: string, { mode, mtime }: Header, content: Readable): Promise<void> {
    await this.#replace(path, async (beside) => {
      const file = createWriteStream(beside, { flags: "wx", mode: 0o600 });
      await pipeline(content, file);
      this.#report.bytes += file.bytesWritten;
      if (mtime !== undefined) await utimes(beside, mtime, mtime);
      await chmod(beside, (mode ?? 0o644) & 0o777);
    });
    this.#files.add(path);
  }

  async #linkFile(path: string, to: string): Promise<void> {
    if (!this.#files.has(to)) throw refused(path, `it is a hard link to ${shown(to)}, which did not come before it`);
    await this.#replace(path, (beside) => link(join(this.#root, to), beside));
    this.#files.add(path);
  }

  /** Makes something beside its place and renames it there: what was there, a link too, is replaced and not written through. */
  async #replace(path: string, make: (beside: string) => Promise<void>): Promise<void> {
    await this.#enter(parentOf(path));
    const place = join(this.#root, path);
    const beside = join(this.#root, parentOf(path), `.${randomUUID()}.part`);
    try {
      await make(beside);
      await rename(beside, place);
    } catch (error) {
      await rm(beside, { force: true });
      throw error;
    }
  }

  /** Makes the folders of a path; each is a real folder, never a link that was there before. */
  async #enter(path: string): Promise<void> {
    if (path === "" || this.#folders.has(path)) return;
    await this.#enter(parentOf(path));
    const place = join(this.#root, path);
    const facts = await lstat(place).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null;
      throw error;
    });
    if (facts === null) await mkdir(place);
    else if (!facts.isDirectory()) throw refused(path, "something that is no folder stands there");
    this.#folders.add(path);
  }
}

/** A path of the archive without `.`, empty parts and a leading slash; empty for the root. */
function innerPath(name: string): string {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  const isBad = parts.includes("..") || name.includes("\0") || (process.platform === "win32" && /[\\:]/.test(name));
  if (isBad) throw refused(name, "its path leads out of the folder");
  return parts.join("/");
}

function parentOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

/** `..` only before all else, and no more of them than there are folders above: then other links on the way lead inside too. */
function leadsOut(path: string, to: string): boolean {
  if (to === "" || to.startsWith("/") || to.includes("\0")) return true;
  const parts = to.split("/").filter((part) => part !== "" && part !== ".");
  const ups = parts.findIndex((part) => part !== "..");
  const [climbs, rest] = ups === -1 ? [parts.length, []] : [ups, parts.slice(ups)];
  const depth = path.split("/").length - 1;
  return climbs > depth || rest.includes("..");
}

function refused(path: string, reason: string): SandpoolError {
  return new SandpoolError("protocol_violation", `The machine sent ${shown(path)}, which is refused: ${reason}.`, {
    hint: "Nothing was written outside the folder. Download single files, or into an empty folder.",
  });
}

function incomplete(cause: Error): Error {
  if (cause instanceof SandpoolError) return cause;
  return new ConnectionError(`The folder did not come to its end: ${cause.message}.`, {
    cause,
    hint: "Files that are here are whole, others are missing: download it again.",
  });
}

function shown(path: string): string {
  return escapeControl(JSON.stringify(path));
}
