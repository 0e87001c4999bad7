import { readFile, writeFile } from "node:fs/promises";
import { networkFailed } from "../fail.ts";

/** A setting below `/proc/sys/net`, those of this process's network namespace. Null where there is none. */
export async function readSetting(path: string): Promise<string | null> {
  return await readFile(`/proc/sys/net/${path}`, "utf8").then(
    (text) => text.trim(),
    () => null,
  );
}

/** @param options `optional`: a kernel without IPv6 has no such setting */
export async function writeSetting(path: string, value: string, options: { optional?: boolean } = {}): Promise<void> {
  try {
    await writeFile(`/proc/sys/net/${path}`, value);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (options.optional === true && code === "ENOENT") return;
    throw networkFailed(
      `/proc/sys/net/${path} cannot be set to ${value}: ${message}`,
      "run the server where it may write /proc/sys/net (in a container: one of its own, and privileged)",
    );
  }
}
