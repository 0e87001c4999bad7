import { createHash } from "node:crypto";
import { pipeline, Readable } from "node:stream";
import type { WrittenFile } from "@sandpool/protocol";
import type { Transport } from "../../http/transport.ts";
import type { Content } from "./files.ts";
import { assertSame, HashingStream } from "./hashing.ts";

const CONTENT_TYPE = "application/octet-stream";

/** Sends content to a file route. Text and bytes say their hash before, so that a wrong copy never gets its name. */
export async function writeContent(
  transport: Transport,
  route: string,
  content: Content,
  signal: AbortSignal | undefined,
): Promise<WrittenFile> {
  if (typeof content === "string") return writeBytes(transport, route, Buffer.from(content, "utf8"), signal);
  if (content instanceof Uint8Array) return writeBytes(transport, route, content, signal);
  return writeStream(transport, route, content instanceof Readable ? content : Readable.from(content), null, signal);
}

async function writeBytes(
  transport: Transport,
  route: string,
  bytes: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<WrittenFile> {
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const headers = { "x-sandpool-sha256": sha256 };
  const request = { body: bytes, contentType: CONTENT_TYPE, headers, signal, retries: 3, timeoutMs: 0 };
  const written = (await transport.json("PUT", route, request)) as WrittenFile;
  assertSame("The written file", { bytes: bytes.length, sha256 }, written);
  return written;
}

/** Sends a stream; where `size` is given another length is refused by the server. */
export async function writeStream(
  transport: Transport,
  route: string,
  source: Readable,
  size: number | null,
  signal: AbortSignal | undefined,
): Promise<WrittenFile> {
  const hashing = new HashingStream();
  // The body's own failure is what `send` then reports.
  const body = pipeline(source, hashing, () => undefined);
  const headers: Record<string, string> = size === null ? {} : { "content-length": String(size) };
  try {
    const request = { body, contentType: CONTENT_TYPE, headers, signal, timeoutMs: 0 };
    const written = (await transport.json("PUT", route, request)) as WrittenFile;
    assertSame("The written file", hashing, written);
    return written;
  } catch (error) {
    throw source.errored ?? error;
  } finally {
    source.destroy();
  }
}
