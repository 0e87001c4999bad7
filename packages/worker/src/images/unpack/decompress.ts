import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { PassThrough, type Readable, type Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";

/** The streams from a file to its tar, whatever it is compressed with: its first bytes tell, not what somebody calls it. */
export async function openPacked(path: string): Promise<[source: Readable, unpack: Transform]> {
  const file = await open(path, "r");
  const head = Buffer.alloc(4);
  try {
    await file.read(head, 0, 4, 0);
  } finally {
    await file.close();
  }
  return [createReadStream(path, { highWaterMark: 256 * 1024 }), decompressor(head)];
}

function decompressor(head: Buffer): Transform {
  if (head[0] === 0x1f && head[1] === 0x8b) return createGunzip({ chunkSize: 256 * 1024 });
  if (head.readUInt32LE(0) === 0xfd2fb528) return createZstdDecompress({ chunkSize: 256 * 1024 });
  return new PassThrough();
}
