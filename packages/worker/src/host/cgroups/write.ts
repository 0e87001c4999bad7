import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { ensureFolder } from "../make-folder.ts";

/** Makes a group; one that exists is fine. Everybody may look into it, whatever the server's umask. */
export async function makeGroup(folder: string): Promise<void> {
  await ensureFolder(folder, 0o755);
}

/** Writes one control file in one write call: the kernel takes each call as a whole command. */
export async function writeControl(file: string, value: string | number): Promise<void> {
  // Without O_CREAT: in a cgroup a missing control file is a missing controller, never a file to make.
  const handle = await open(file, constants.O_WRONLY);
  try {
    await handle.write(String(value));
  } catch (error) {
    throw new Error(`${file} refused ${JSON.stringify(String(value))}: ${(error as Error).message}`, { cause: error });
  } finally {
    await handle.close();
  }
}

/** For limits of controllers that not every kernel has. */
export async function writeControlIfPresent(file: string, value: string | number): Promise<boolean> {
  try {
    await writeControl(file, value);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
