import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { fail } from "../fail.ts";

/** Writes an upload to `path`, hashing it on the way. @throws `archive_too_large`, `archive_hash_mismatch` */
export async function receiveArchive(
  body: NodeJS.ReadableStream,
  path: string,
  sha256: string,
  limitBytes: number,
): Promise<{ bytes: number }> {
  const hash = createHash("sha256");
  const file = await open(path, "wx", 0o600);
  let bytes = 0;
  try {
    for await (const chunk of body) {
      const buffer = typeof chunk === "string" ? Buffer.from(chunk) : (chunk as Buffer);
      bytes += buffer.length;
      if (bytes > limitBytes) {
        throw fail(
          "archive_too_large",
          `The archive has over ${limitBytes} bytes; at most ${limitBytes} are allowed.`,
          {
            hint: "Leave data out of the environment's folder, or raise the server's archive limit.",
            details: { limit_bytes: limitBytes },
          },
        );
      }
      hash.update(buffer);
      await file.write(buffer);
    }
  } finally {
    await file.close();
  }
  const received = hash.digest("hex");
  if (received !== sha256) {
    throw fail(
      "archive_hash_mismatch",
      `The archive's bytes have the SHA-256 ${received}; the address says ${sha256}.`,
      {
        hint: "Upload the archive again; if it repeats, something on the way changes the body.",
        details: { received, expected: sha256, bytes },
      },
    );
  }
  return { bytes };
}
