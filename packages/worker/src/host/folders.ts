import { createHash } from "node:crypto";
import { chmod, lstat, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { isAlive, ownIdentity, parseIdentity } from "./identity.ts";
import { ensureFolder } from "./make-folder.ts";
import { withHostLock } from "./uids/lock.ts";

/** Where one server keeps what must not outlive a boot. */
export interface HostFolders {
  /** Names this server on the host: the first 12 hex digits of SHA-256 of its data folder's path. */
  key: string;
  /** Shared by all servers of this user. */
  shared: string;
  /** This server's own. */
  own: string;
  sandboxes: string;
  /** Machines, which outlive the server. */
  machines: string;
  /** The OCI runtime's state. */
  runtimeRoot: string;
  /** Claims of host uid ranges, shared by all servers. */
  uids: string;
  /** The made /etc of sandboxes. */
  etc: string;
}

export function hostFolders(dataDir: string): HostFolders {
  return foldersOfServer(createHash("sha256").update(resolve(dataDir)).digest("hex").slice(0, 12));
}

/** The same for a server of this user known by its key alone. */
export function foldersOfServer(key: string): HostFolders {
  const shared = sharedFolder();
  const own = `${shared}/${key}`;
  return {
    key,
    shared,
    own,
    sandboxes: `${own}/sandboxes`,
    machines: `${own}/machines`,
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
  await withServersLock(async () => {
    await ensureFolder(folders.own, 0o711);
    if (!(await isOwnerAlive(folders.own))) await writeOwner(folders.own);
  });
  await ensureFolder(folders.sandboxes, 0o711);
  for (const path of [folders.runtimeRoot, folders.uids]) await ensureFolder(path, 0o700);
}

/** Held while a server's folder is taken or removed. */
export function withServersLock<Result>(work: () => Promise<Result>): Promise<Result> {
  return withHostLock("servers", work);
}

/** Notes in `folder` that this process holds it. */
export async function writeOwner(folder: string): Promise<void> {
  const draft = `${folder}/owner.json.draft`;
  await writeFile(draft, JSON.stringify(ownIdentity()), { mode: 0o600 });
  await rename(draft, `${folder}/owner.json`);
}

/** Whether the process that holds `folder` still runs. A folder without a readable owner was cut off in the making. */
export async function isOwnerAlive(folder: string): Promise<boolean> {
  try {
    const owner = parseIdentity(JSON.parse(await readFile(`${folder}/owner.json`, "utf8")));
    return owner !== null && isAlive(owner);
  } catch {
    return false;
  }
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
