import { randomUUID } from "node:crypto";
import { existsSync, lstatSync } from "node:fs";
import { rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder, makeFoldersBelow } from "../../host/make-folder.ts";
import { makeEtc } from "../oci/etc.ts";
import { systemLinks } from "../oci/mounts.ts";
import { AGENT_TARGET, TMP_MARK } from "./plan.ts";

/** Folders of the host's programs and libraries that a machine of the image `host` sees, read-only, with what is mounted in them. */
export function systemRoots(): string[] {
  const linked = new Set(systemLinks().map(({ path }) => path));
  const roots = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
  return roots.filter((path) => !linked.has(path) && existsSync(path) && lstatSync(path).isDirectory());
}

/** Only what a runtime mounts on, for images that were made elsewhere. */
export async function ensureMountPoints(folder: string): Promise<void> {
  await makeWhole(folder, makeMountPoints);
}

async function makeMountPoints(root: string): Promise<void> {
  await makeFoldersBelow(root, dirname(AGENT_TARGET));
  await makeFolder(`${root}/tmp`, 0o1777);
  for (const path of [AGENT_TARGET, TMP_MARK]) await writeFile(root + path, "", { mode: 0o444 });
}

/** Another start may be faster; then its folder is kept. */
async function makeWhole(folder: string, fill: (draft: string) => Promise<void>): Promise<void> {
  if (existsSync(folder)) return;
  const draft = `${folder}.${randomUUID()}`;
  await makeFolder(draft, 0o755);
  await fill(draft);
  await rename(draft, folder).catch(async (error: NodeJS.ErrnoException) => {
    await rm(draft, { recursive: true, force: true });
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
  });
}

/**
 * The root of the image `host`: a made /etc, empty folders, and mount points for the host's own programs. Nothing else of the host
 * is in it. One folder serves all machines of a server, which only read it.
 */
export async function ensureHostImage(folder: string): Promise<void> {
  await makeWhole(folder, async (root) => {
    for (const link of systemLinks()) await symlink(link.target, root + link.path);
    for (const path of [...EMPTY, ...systemRoots()]) await makeFoldersBelow(root, path);
    for (const [path, mode] of Object.entries(MODES)) {
      await makeFoldersBelow(root, dirname(path));
      await makeFolder(root + path, mode);
    }
    await makeMountPoints(root);
    await makeEtc(`${root}/etc`);
    await writeFile(`${root}/etc/passwd`, PASSWD);
  });
}

const PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const EMPTY = [
  "/proc",
  "/sys",
  "/dev",
  "/run",
  "/home",
  "/opt",
  "/srv",
  "/mnt",
  "/var/lib",
  "/var/log",
  "/var/cache",
  "/workspace",
];
const MODES = { "/root": 0o700, "/var/tmp": 0o1777 };
