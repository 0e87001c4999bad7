import { fail } from "../fail.ts";

/** `archive_invalid`, naming the entry (escaped, shortened) that broke a rule. */
export function invalidArchive(problem: string, entry?: string): Error {
  const shown = entry === undefined ? "" : ` (entry ${JSON.stringify(entry.slice(0, 200))})`;
  return fail("archive_invalid", `The archive was refused: ${problem}${shown}.`, {
    hint: "Pack regular files, folders and symbolic links that stay inside, each path once, as tar.zst; the clients do this.",
    details: entry === undefined ? {} : { entry: entry.slice(0, 200) },
  });
}
