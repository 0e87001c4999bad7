import { chmod, lchown, lstat, mkdir, rm, writeFile } from "node:fs/promises";
import { removeTree } from "../host/remove-tree.ts";
import { runTool } from "../host/run.ts";
import type { ResolvedImage } from "./contract.ts";
import { coveredFolders } from "./unpack/layer.ts";

/** What a machine writes at its start; a link there would lead its writes to places that are empty before it runs. */
const writtenFiles = ["etc/resolv.conf", "etc/hosts", "etc/hostname"];
/** Where an ordinary OCI runtime resolves a path of the image on the host (classes 4 to 7 of the known escapes). */
const realFolders = ["usr", "etc"];

/**
 * Makes an unpacked tree ready for every machine: empty folders where something is mounted whatever the image had there, a `/tmp` for all,
 * no link where the machine's own files go, everything else as it came.
 */
export async function finishTree(root: string): Promise<ResolvedImage["drivers"]> {
  await chmod(root, 0o755);
  await lchown(root, 0, 0);
  for (const name of coveredFolders) {
    await removeTree(`${root}/${name}`);
    if (name !== "sandpool") await ensureFolder(`${root}/${name}`);
  }
  await ensureFolder(`${root}/tmp`);
  await chmod(`${root}/tmp`, 0o1777);
  if ((await kindOf(`${root}/etc`)) === null) await ensureFolder(`${root}/etc`);
  if ((await kindOf(`${root}/etc`)) === "folder") for (const name of writtenFiles) await unlinkFile(`${root}/${name}`);
  return await findDrivers(root);
}

/** Bytes on disk, and everything on it: what is published must survive a power cut. */
export async function settleTree(folder: string): Promise<number> {
  const limit = { timeoutMs: 10 * 60_000 };
  const synced = await runTool("sync", ["-f", "--", folder], limit);
  if (synced.code !== 0) throw new Error(`sync of an image failed: ${synced.stderr.trim().slice(0, 300)}`);
  const measured = await runTool("du", ["-s", "--block-size=1", "--", folder], limit);
  const bytes = Number.parseInt(measured.stdout, 10);
  if (!Number.isSafeInteger(bytes)) throw new Error(`du of an image failed: ${measured.stderr.trim().slice(0, 300)}`);
  return bytes;
}

async function findDrivers(root: string): Promise<ResolvedImage["drivers"]> {
  const allowed = { allowed: true, reason: null };
  for (const name of realFolders) {
    const kind = await kindOf(`${root}/${name}`);
    if (kind === "folder" || kind === null) continue;
    const reason = `/${name} of this image is a ${kind}, and an ordinary runtime would follow it outside of the machine`;
    return { namespace: { allowed: false, reason }, gvisor: allowed };
  }
  return { namespace: allowed, gvisor: allowed };
}

async function unlinkFile(path: string): Promise<void> {
  const kind = await kindOf(path);
  if (kind === null || kind === "file") return;
  await removeTree(path);
  await writeFile(path, "", { flag: "wx", mode: 0o644 });
  await chmod(path, 0o644);
}

async function ensureFolder(path: string): Promise<void> {
  if ((await kindOf(path)) === "folder") return;
  await rm(path, { force: true });
  await mkdir(path);
  await chmod(path, 0o755);
}

async function kindOf(path: string): Promise<"folder" | "file" | "link" | null> {
  const found = await lstat(path).catch(() => null);
  if (found === null) return null;
  return found.isDirectory() ? "folder" : found.isSymbolicLink() ? "link" : "file";
}
