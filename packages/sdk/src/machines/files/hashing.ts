import { createHash } from "node:crypto";
import { pipeline, type Readable, Transform } from "node:stream";
import { SandpoolError } from "../../errors.ts";

/** Passes bytes on while it counts and hashes them. */
export class HashingStream extends Transform {
  bytes = 0;
  readonly #hash = createHash("sha256");
  readonly #check: (facts: { bytes: number; sha256: string }) => void;

  /** `check` is called at the end; what it throws fails the stream. */
  constructor(check: (facts: { bytes: number; sha256: string }) => void = () => undefined) {
    super();
    this.#check = check;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: (error: null, data: Buffer) => void): void {
    this.bytes += chunk.length;
    this.#hash.update(chunk);
    done(null, chunk);
  }

  override _flush(done: (error?: Error | null) => void): void {
    this.sha256 = this.#hash.digest("hex");
    try {
      this.#check({ bytes: this.bytes, sha256: this.sha256 });
      done();
    } catch (error) {
      done(error as Error);
    }
  }

  /** Of all bytes; empty before the end. */
  sha256 = "";
}

/** Fails where what arrived is not what was sent. */
export function assertSame(
  what: string,
  sent: { bytes: number; sha256: string },
  arrived: { bytes: number; sha256: string },
): void {
  if (sent.bytes === arrived.bytes && sent.sha256 === arrived.sha256) return;
  const facts = ({ bytes, sha256 }: { bytes: number; sha256: string }): string =>
    `${bytes} bytes with sha256 ${sha256}`;
  throw new SandpoolError(
    "protocol_violation",
    `${what}: ${facts(arrived)} arrived; expected ${facts(sent)}, as they were sent.`,
    { hint: "Something on the way has changed the content; do it again." },
  );
}

/** Tells of bytes passed and of bytes in all, null where that is not known. */
export type OnProgress = (bytes: number, total: number | null) => void;

/** The same stream, whose progress is told. */
export function withProgress(source: Readable, onProgress: OnProgress | undefined, total: number | null): Readable {
  if (onProgress === undefined) return source;
  let bytes = 0;
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      onProgress(bytes, total);
      done(null, chunk);
    },
  });
  return pipeline(source, counting, () => undefined);
}
