import { chmod, lstat, mkdir } from "node:fs/promises";

/** Makes one folder with exactly this mode: the server's umask may be 077, and what a sandbox must pass through would be shut. */
export async function makeFolder(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode });
  await chmod(path, mode);
}

/** The same for a folder that may exist. A link in its place is not followed: what it leads to is somebody else's. */
export async function ensureFolder(path: string, mode: number): Promise<void> {
  await mkdir(path, { mode }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    if ((await lstat(path)).isDirectory()) return;
    throw new Error(`${path} is a link or a file; expected a folder. Remove it and try again.`);
  });
  await chmod(path, mode);
}

/** Makes `path` below `root`, and every folder on the way, mode 0755. Those that exist are left as they are. */
export async function makeFoldersBelow(root: string, path: string): Promise<void> {
  let folder = root;
  for (const name of path.split("/").filter((part) => part !== "" && part !== ".")) {
    folder = `${folder}/${name}`;
    const made = await mkdir(folder).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error;
        return false;
      },
    );
    if (made) await chmod(folder, 0o755);
  }
}
