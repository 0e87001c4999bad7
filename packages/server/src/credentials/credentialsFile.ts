// Only node: imports here: under sudo the text of this file itself runs in a child that dropped to the calling user.
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, rename, rm } from "node:fs/promises";
import { homedir, userInfo } from "node:os";
import { dirname, join } from "node:path";

const LIMIT_BYTES = 64 * 1024;

/** The file's content. `url` is missing while no server runs. */
export interface Credentials {
  url?: string;
  key?: string;
}

/** Where the current user's credentials stand. After a change of user (`droppedTo`) the environment is not trusted. */
export function credentialsPath(droppedTo = false): string {
  const configured = process.env.XDG_CONFIG_HOME;
  if (!droppedTo && configured?.startsWith("/")) return join(configured, "sandpool", "credentials.json");
  return join(droppedTo ? userInfo().homedir : homedir(), ".config", "sandpool", "credentials.json");
}

/** Reads the file; null if there is none. Refuses a link, another user's file and one that others may read. */
export async function readCredentials(path: string): Promise<Credentials | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw refusal(path, (error as NodeJS.ErrnoException).code === "ELOOP" ? "is a link" : String(error));
  }
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw refusal(path, "is no regular file");
    if (stat.uid !== process.geteuid?.())
      throw refusal(path, `belongs to uid ${stat.uid}, not to ${process.geteuid?.()}`);
    if ((stat.mode & 0o077) !== 0) throw refusal(path, `has mode ${(stat.mode & 0o777).toString(8)}, expected 600`);
    if (stat.size > LIMIT_BYTES) throw refusal(path, `has ${stat.size} bytes, at most ${LIMIT_BYTES} are expected`);
    return parse(await file.readFile("utf8"));
  } finally {
    await file.close();
  }
}

/** Writes the file atomically with mode 0600 in a folder with mode 0700, never through a link. */
export async function writeCredentials(path: string, credentials: Credentials): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await requireOwn(folder, "isDirectory", "a folder");
  await requireOwn(path, "isFile", "a regular file");
  const temporary = join(folder, `.credentials.${process.pid}.${Date.now()}`);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await open(temporary, flags, 0o600);
  try {
    await file.writeFile(`${JSON.stringify(credentials, null, 2)}\n`);
    await file.sync();
    await file.close();
    await rename(temporary, path);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Takes the url out if it is this server's; the key stays for the next start. */
export async function removeUrl(path: string, url: string): Promise<void> {
  const { url: written, ...rest } = (await readCredentials(path)) ?? {};
  if (written === url) await writeCredentials(path, rest);
}

async function requireOwn(path: string, kind: "isDirectory" | "isFile", expected: string): Promise<void> {
  const stat = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (stat === null) return;
  if (stat.isSymbolicLink()) throw refusal(path, "is a link");
  if (!stat[kind]()) throw refusal(path, `is not ${expected}`);
  if (stat.uid !== process.geteuid?.())
    throw refusal(path, `belongs to uid ${stat.uid}, not to ${process.geteuid?.()}`);
  if ((stat.mode & 0o022) !== 0) throw refusal(path, "may be written by others");
}

function parse(text: string): Credentials {
  try {
    const { url, key } = JSON.parse(text) as Record<string, unknown>;
    return { ...(typeof url === "string" ? { url } : {}), ...(typeof key === "string" ? { key } : {}) };
  } catch {
    return {};
  }
}

function refusal(path: string, reason: string): Error {
  return Object.assign(new Error(`the credentials file: ${path} ${reason}`), { code: "credentials_refused" });
}
