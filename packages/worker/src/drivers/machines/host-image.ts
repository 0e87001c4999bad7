import { existsSync, lstatSync } from "node:fs";
import { rename, rm, symlink, writeFile } from "node:fs/promises";
import { makeFolder, makeFoldersBelow } from "../../host/make-folder.ts";
import { makeEtc } from "../oci/etc.ts";
import { systemLinks } from "../oci/mounts.ts";

/** Folders of the host's programs and libraries that a machine of the image `host` sees, read-only, with what is mounted in them. */
export function systemRoots(): string[] {
  const linked = new Set(systemLinks().map(({ path }) => path));
  const roots = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
  return roots.filter((path) => !linked.has(path) && existsSync(path) && lstatSync(path).isDirectory());
}

/**
 * The root of the image `host`: a made /etc, empty folders, and mount points for the host's own programs. Nothing else of the host
 * is in it. One folder serves all machines of a server, which only read it.
 */
export async function ensureHostImage(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  const draft = `${folder}.${process.pid}-${Math.random().toString(36).slice(2)}`;
  await makeFolder(draft, 0o755);
  for (const link of systemLinks()) await symlink(link.target, draft + link.path);
  for (const path of [...EMPTY, ...systemRoots()]) {
    await makeFoldersBelow(draft, path);
  }
  for (const [path, mode] of Object.entries(MODES)) {
    await makeFoldersBelow(draft, path.slice(0, path.lastIndexOf("/")));
    await makeFolder(draft + path, mode);
  }
  await makeEtc(`${draft}/etc`);
  await writeFile(`${draft}/etc/passwd`, PASSWD);
  await rename(draft, folder).catch(async (error: NodeJS.ErrnoException) => {
    // Another start was faster.
    await rm(draft, { recursive: true, force: true });
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
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
const MODES = { "/root": 0o700, "/tmp": 0o1777, "/var/tmp": 0o1777 };
