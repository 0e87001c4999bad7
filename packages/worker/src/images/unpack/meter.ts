import { createHash, type Hash } from "node:crypto";
import { statfs } from "node:fs/promises";
import { Transform, type TransformCallback } from "node:stream";
import { formatSize } from "@sandpool/protocol";
import { checkFreeDisk, imageFailed } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";

const diskEveryBytes = 64 * 2 ** 20;

/** What all layers of one image have used. */
export interface Use {
  bytes: number;
  entries: number;
}

/** Passes a layer's tar on, hashes it, and ends it where the image passes a limit or the disk its low-water mark. */
export class Meter extends Transform {
  readonly #hash: Hash = createHash("sha256");
  readonly #folder: string;
  readonly #packedBytes: number;
  readonly #limits: ImageLimits;
  readonly #use: Use;
  #bytes = 0;
  #nextDiskAt = diskEveryBytes;

  constructor(options: { folder: string; packedBytes: number; limits: ImageLimits; use: Use }) {
    super();
    this.#folder = options.folder;
    this.#packedBytes = options.packedBytes;
    this.#limits = options.limits;
    this.#use = options.use;
  }

  /** `sha256:…` of what has passed; once. */
  digest(): string {
    return `sha256:${this.#hash.digest("hex")}`;
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    this.#hash.update(chunk);
    this.#bytes += chunk.length;
    this.#use.bytes += chunk.length;
    const { unpackedBytes, ratio, ratioFreeBytes, freeDiskBytes } = this.#limits;
    if (this.#use.bytes > unpackedBytes) {
      done(tooLarge(`it unpacks to over ${formatSize(unpackedBytes)}`));
    } else if (this.#bytes > ratioFreeBytes && this.#bytes > this.#packedBytes * ratio) {
      done(tooLarge(`a layer unpacks to over ${ratio} times its ${formatSize(this.#packedBytes)}`));
    } else if (this.#bytes < this.#nextDiskAt) {
      done(null, chunk);
    } else {
      this.#nextDiskAt = this.#bytes + diskEveryBytes;
      checkFreeDisk(this.#folder, freeDiskBytes).then(() => done(null, chunk), done);
    }
  }
}

export function tooLarge(how: string): Error {
  return imageFailed(`The image was refused: ${how}.`, {
    hint: "Make it smaller, or have the operator raise the server's image limits.",
  });
}

export async function freeBytes(folder: string): Promise<number> {
  const disk = await statfs(folder);
  return disk.bavail * disk.bsize;
}
