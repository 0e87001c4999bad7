import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { FileEntry, LiveMachine } from "@sandpool/worker";
import { type ByteRange, readRange } from "./range.ts";

/** What came from inside is never shown as a page of this server's. */
const UNTRUSTED = {
  "X-Content-Type-Options": "nosniff",
  "Content-Security-Policy": "sandbox",
  "Content-Disposition": "attachment",
  "Cache-Control": "no-store",
};

/** Answers with a file's bytes, or those of its Range. A file that cannot be read to the end breaks the reply off. */
export async function downloadFile(
  live: LiveMachine,
  { path, user }: { path: string; user: string | null },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const isHead = request.method === "HEAD";
  // The validators that If-Range would compare are none of ours, so it never matches.
  const rangeHeader = request.headers["if-range"] === undefined ? request.headers.range : undefined;
  let range: ByteRange | null = null;
  if (isHead || rangeHeader !== undefined) {
    const { kind, size } = await live.statFile(path, { follow: true, user });
    if (kind === "file" && size > 0) range = readRange(rangeHeader, size);
    if (isHead && kind === "file") {
      response.writeHead(range === null ? 200 : 206, headersOf(size, range));
      response.end();
      return;
    }
  }
  const { stat, content } = await live.readFile(path, { user, ...(range ?? {}) });
  try {
    response.writeHead(range === null ? 200 : 206, headersOf(stat.size, range));
    response.flushHeaders();
    await pipeline(content, response);
  } catch (error) {
    // The reply is half there: only its breaking off still tells.
    response.destroy();
    if (!response.headersSent) throw error;
  } finally {
    content.destroy();
  }
}

/** Answers with a tar of what is below `path`. */
export async function downloadTree(
  live: LiveMachine,
  { path, user }: { path: string; user: string | null },
  response: ServerResponse,
): Promise<void> {
  const content = await live.readTree(path, { user });
  response.writeHead(200, { ...UNTRUSTED, "Content-Type": "application/x-tar" });
  await pipeline(content, response).catch(() => response.destroy());
}

/** The kernel's own files say that they have no bytes and have some: their length is not announced. */
function headersOf(size: FileEntry["size"], range: ByteRange | null): Record<string, string | number> {
  const common = { ...UNTRUSTED, "Content-Type": "application/octet-stream", "Accept-Ranges": "bytes" };
  if (range === null) return size === 0 ? common : { ...common, "Content-Length": size };
  const { offset, length } = range;
  return { ...common, "Content-Length": length, "Content-Range": `bytes ${offset}-${offset + length - 1}/${size}` };
}
