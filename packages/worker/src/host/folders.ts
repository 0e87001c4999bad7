import { createHash } from "node:crypto";
import { chmod, lstat, mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ensureFolder } from "./make-folder.ts";

/** Where one server keeps what must not outlive a boot. */
export interface HostFolders {
  /** Names this server on the host: the first 12 hex digits of SHA-256 of its data folder's path. */
  key: string;
  /** Shared by all servers of this user. */
  shared: string;
  /** This server's own. */
  own: string;
  sandboxes: string;
  /** The OCI runtime's state. */
  runtimeRoot: string;
  /** Claims of host uid ranges, shared by all servers. */
  uids: string;
  /** The made /etc of sandboxes. */
  etc: string;
}

export function hostFolders(dataDir: string): HostFolders {
  const key = createHash("sha256").update(resolve(dataDir)).digest("hex").slice(0, 12);
  const shared = sharedFolder();
  const own = `${shared}/${key}`;
  return {
    key,
    shared,
    own,
    sandboxes: `${own}/sandboxes`,
    runtimeRoot: `${own}/runtime`,
    uids: `${shared}/uids`,
    etc: `${own}/etc`,
  };
}

/**
 * Makes the folders, and refuses ones that somebody else could have planted.
 * 0711, not 0700: a sandbox's root is an unprivileged host uid that must pass through to its own root filesystem.
 */
export async function makeHostFolders(folders: HostFolders): Promise<void> {
  await mkdir(dirname(folders.shared), { recursive: true });
  await mkdir(folders.shared, { mode: 0o711 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await refusePlanted(folders.shared);
  await chmod(folders.shared, 0o711);
  for (const path of [folders.own, folders.sandboxes]) await ensureFolder(path, 0o711);
  for (const path of [folders.runtimeRoot, folders.uids]) await ensureFolder(path, 0o700);
}

function sharedFolder(): string {
  const uid = process.geteuid?.() ?? 0;
  if (uid === 0) return "/run/sandpool";
  const runtime = process.env.XDG_RUNTIME_DIR;
  return runtime ? `${runtime}/sandpool` : `/tmp/sandpool-${uid}`;
}

async function refusePlanted(path: string): Promise<void> {
  const stat = await lstat(path);
  const uid = process.geteuid?.() ?? 0;
  if (stat.isDirectory() && stat.uid === uid && (stat.mode & 0o022) === 0) return;
  throw new Error(
    `${path} must be a folder owned by uid ${uid} that nobody else may write; it has uid ${stat.uid} and mode ` +
      `${(stat.mode & 0o7777).toString(8)}. Remove it and start again.`,
  );
}
