import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

const BLOCK_BYTES = 512;

/** What a file or tree takes on disk; what goes away meanwhile counts as nothing. */
export async function diskBytes(path: string): Promise<number> {
  const found = await lstat(path).catch(() => null);
  if (found === null) return 0;
  let bytes = found.blocks * BLOCK_BYTES;
  if (!found.isDirectory()) return bytes;
  const folder = await opendir(path).catch(() => null);
  if (folder === null) return bytes;
  for await (const { name } of folder) bytes += await diskBytes(join(path, name));
  return bytes;
}
