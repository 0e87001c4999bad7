import { createHash } from "node:crypto";
import { Transform } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";

/** The header's value; null where there is none. @throws `invalid_request` unless it is 64 hexadecimal digits */
export function readHashHeader(header: string | string[] | undefined): string | null {
  if (header === undefined) return null;
  if (typeof header === "string" && /^[0-9a-f]{64}$/i.test(header)) return header.toLowerCase();
  throw new SandpoolError("invalid_request", `X-Sandpool-Sha256 is ${JSON.stringify(header).slice(0, 120)}`, {
    hint: "expected 64 hexadecimal digits",
  });
}

/** Passes bytes on and fails instead of ending where they are not those of the hash: so that whoever takes them keeps nothing. */
export function checkHash(expected: string): Transform {
  const hash = createHash("sha256");
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
    flush(done) {
      const received = hash.digest("hex");
      done(received === expected ? null : mismatch(expected, received));
    },
  });
}

function mismatch(expected: string, received: string): SandpoolError {
  return new SandpoolError("file_hash_mismatch", `the bytes have the hash ${received}, not ${expected}`, {
    hint: "nothing was written; send them again",
    details: { expected, received },
  });
}
