import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { constants, zstdCompress } from "node:zlib";
import { pack } from "tar-stream";
import type { ArchiveEntry } from "./collect.ts";

export interface Archive {
  /** SHA-256 of the compressed bytes, lower-case hexadecimal. */
  sha256: string;
  bytes: Uint8Array;
  /** The path inside the archive that is started. */
  entry: string;
}

/** Entries as one deterministic tar.zst: the same content gives the same bytes, whoever packs it and when. */
export async function packEntries(entries: readonly ArchiveEntry[], entry: string): Promise<Archive> {
  const bytes = await promisify(zstdCompress)(await packTar(entries), {
    params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
  });
  return { sha256: createHash("sha256").update(bytes).digest("hex"), bytes, entry };
}

async function packTar(entries: readonly ArchiveEntry[]): Promise<Buffer> {
  const tar = pack();
  const chunks: Buffer[] = [];
  const drained = (async () => {
    for await (const chunk of tar) chunks.push(chunk as Buffer);
  })();
  const always = { mtime: new Date(0), uid: 0, gid: 0, uname: "", gname: "" };
  for (const entry of entries) {
    if (entry.kind === "folder") tar.entry({ ...always, name: `${entry.path}/`, type: "directory", mode: 0o755 });
    else if (entry.kind === "link") {
      tar.entry({ ...always, name: entry.path, type: "symlink", linkname: entry.target, mode: 0o755 });
    } else {
      const content = typeof entry.source === "string" ? await readFile(entry.source) : Buffer.from(entry.source);
      tar.entry({ ...always, name: entry.path, mode: entry.executable ? 0o755 : 0o644 }, content);
    }
  }
  tar.finalize();
  await drained;
  return Buffer.concat(chunks);
}
