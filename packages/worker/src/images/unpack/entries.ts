import { constants } from "node:fs";
import { chmod, lchown, link, lutimes, open, symlink } from "node:fs/promises";
import type { Extract } from "tar-stream";
import { refusedEntry } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import { splitPath } from "./path.ts";
import type { Tree } from "./tree.ts";

export type Entry = Extract extends AsyncIterable<infer Item> ? Item : never;

export interface Owner {
  uid: number;
  gid: number;
  mtimeSeconds: number;
}

/** A machine has this many ids; an owner beyond them is nobody inside. */
const idsOfMachine = 65_536;
const nobody = 65_534;
const latestSeconds = 2 ** 34;

/** Set-id bits are never kept: what an image brings gains no privilege. */
export function modeOf({ header }: Entry): number {
  return (header.mode ?? 0o644) & 0o1777;
}

/** A pax header says what does not fit into the fields of the old one. */
export function ownerOf({ header }: Entry): Owner {
  const pax = (header.pax ?? {}) as Readonly<Record<string, string>>;
  const seconds = Number(pax.mtime ?? (header.mtime?.getTime() ?? 0) / 1000);
  return {
    uid: idOf(pax.uid ?? header.uid),
    gid: idOf(pax.gid ?? header.gid),
    mtimeSeconds: Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), latestSeconds) : 0,
  };
}

/** An image has tens of thousands of files: no call is made for what is so already. Fails with EEXIST where something stands. */
export async function writeFile(path: string, entry: Entry): Promise<void> {
  const { uid, gid, mtimeSeconds } = ownerOf(entry);
  const mode = modeOf(entry) & 0o777;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await open(path, flags, mode);
  try {
    if (entry.header.size !== 0) for await (const chunk of entry) await file.write(chunk as Buffer);
    if (uid !== 0 || gid !== 0) await file.chown(uid, gid);
    if ((mode & process.umask()) !== 0) await file.chmod(mode);
    await file.utimes(mtimeSeconds, mtimeSeconds);
  } finally {
    await file.close();
  }
}

/** Its time is set when the layer is complete: every entry in it changes that. */
export async function setFolder(path: string, entry: Entry): Promise<void> {
  const { uid, gid } = ownerOf(entry);
  await lchown(path, uid, gid);
  await chmod(path, modeOf(entry));
}

/** The target stays as it is: inside, it is resolved by the machine's own kernel from the machine's own root. */
export async function makeLink(path: string, entry: Entry): Promise<void> {
  const target = entry.header.linkname ?? "";
  if (target === "" || target.includes("\0") || target.includes("\ufffd") || Buffer.byteLength(target) > 4095)
    throw refusedEntry("a symbolic link's target is empty, too long, not UTF-8 or has a NUL byte", entry.header.name);
  const { uid, gid, mtimeSeconds } = ownerOf(entry);
  await symlink(target, path);
  await lchown(path, uid, gid);
  await lutimes(path, mtimeSeconds, mtimeSeconds);
}

/** A second name of a file that this image brought before. */
export async function makeHardLink(tree: Tree, place: string, entry: Entry, limits: ImageLimits): Promise<void> {
  const { name, linkname } = entry.header;
  const parts = splitPath(linkname ?? "", limits);
  if (parts.length === 0) throw refusedEntry("a hard link names no file", name);
  const source = await tree.place(parts, name);
  if (source === place) return;
  const kind = await tree.kind(source);
  if (kind !== "file" && kind !== "link")
    throw refusedEntry(`a hard link to ${JSON.stringify(linkname?.slice(0, 200))}, which is no file before it`, name);
  await tree.remove(place);
  await link(tree.onDisk(source), tree.onDisk(place));
}

function idOf(value: unknown): number {
  const id = Number(value ?? 0);
  return Number.isInteger(id) && id >= 0 && id < idsOfMachine ? id : nobody;
}
