import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline as pipe, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { FileEntry, WrittenFile } from "@sandpool/protocol";
import { ArgumentError } from "../../errors.ts";
import type { Reply, Transport } from "../../http/transport.ts";
import { describe } from "../../values/describe.ts";
import type { FileOptions, ReadOptions } from "./files.ts";
import { assertSame, HashingStream, type OnProgress, withProgress } from "./hashing.ts";

/** A file's content as a stream that fails where another length, or a hash other than the announced one, has come. */
export async function readContent(transport: Transport, route: string, options: ReadOptions): Promise<Readable> {
  const { signal, onProgress } = options;
  const range = toRange(options);
  if (options.length === 0) return new HashingStream().end();
  const request = { headers: range === null ? {} : { range }, signal, retries: 3, timeoutMs: 0 };
  return transport.send("GET", route, request, async (reply) => checked(reply, onProgress));
}

/** Copies a file to a local path: into a file beside it, which gets its name once all has come. */
export async function saveContent(
  transport: Transport,
  route: string,
  localPath: string,
  entry: FileEntry,
  { signal, onProgress }: FileOptions,
): Promise<WrittenFile> {
  const content = (await readContent(transport, route, { signal, onProgress })) as HashingStream;
  const beside = join(dirname(localPath), `.${basename(localPath)}.${randomUUID()}.part`);
  try {
    const mode = (entry.mode & 0o777) | 0o200;
    await pipeline(content, createWriteStream(beside, { flags: "wx", mode, flush: true }));
    await rename(beside, localPath);
  } catch (error) {
    content.destroy();
    await rm(beside, { force: true });
    throw error;
  }
  return { bytes: content.bytes, sha256: content.sha256 };
}

function checked(reply: Reply, onProgress: OnProgress | undefined): HashingStream {
  const length = Number(reply.headers["content-length"] ?? Number.NaN);
  const announced = reply.headers["x-sandpool-sha256"];
  const stream = new HashingStream((arrived) => {
    const trailer = (reply.trailers as Record<string, string | undefined>)["x-sandpool-sha256"];
    const sha256 = trailer ?? (typeof announced === "string" ? announced : arrived.sha256);
    assertSame("The file that was read", { bytes: Number.isNaN(length) ? arrived.bytes : length, sha256 }, arrived);
  });
  return pipe(withProgress(reply.body, onProgress, Number.isNaN(length) ? null : length), stream, () => undefined);
}

function toRange({ offset = 0, length }: ReadOptions): string | null {
  for (const [name, value] of Object.entries({ offset, length: length ?? 0 })) {
    if (Number.isSafeInteger(value) && value >= 0) continue;
    throw new ArgumentError(`${name} is ${describe(value)}; expected a whole number of bytes, at least 0.`);
  }
  if (offset === 0 && length === undefined) return null;
  return `bytes=${offset}-${length === undefined ? "" : offset + length - 1}`;
}
