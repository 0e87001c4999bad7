import { createReadStream } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Header, type Pack, pack } from "tar-stream";

type Entry = Partial<Header> & { name: string };

/** A local folder and all in it as a tar stream, in flat memory. Links go as links; devices, FIFOs and sockets are left out. */
export function packTree(root: string): Readable {
  const tar = pack();
  packFolder(tar, root, "").then(
    () => tar.finalize(),
    (error: Error) => tar.destroy(error),
  );
  return Readable.from(tar);
}

async function packFolder(tar: Pack, root: string, folder: string): Promise<void> {
  for (const name of (await readdir(join(root, folder))).sort()) {
    const path = folder === "" ? name : `${folder}/${name}`;
    const source = join(root, path);
    const facts = await lstat(source);
    const header: Entry = { name: path, mode: facts.mode & 0o777, mtime: facts.mtime };
    if (facts.isDirectory()) {
      await write(tar, { ...header, name: `${path}/`, type: "directory" });
      await packFolder(tar, root, path);
    } else if (facts.isSymbolicLink()) {
      await write(tar, { ...header, type: "symlink", linkname: await readlink(source) });
    } else if (facts.isFile()) await writeFile(tar, { ...header, size: facts.size }, source);
  }
}

function write(tar: Pack, header: Entry, content?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null): void => (error ? reject(error) : resolve());
    if (content === undefined) tar.entry(header, done);
    else tar.entry(header, content, done);
  });
}

async function writeFile(tar: Pack, header: Entry & { size: number }, source: string): Promise<void> {
  if (header.size === 0) return write(tar, header, "");
  // One that grows meanwhile is sent to the size it had; one that shrinks fails the whole, for tar has no way to say it.
  await pipeline(
    createReadStream(source, { end: header.size - 1 }),
    tar.entry(header) as unknown as NodeJS.WritableStream,
  );
}
