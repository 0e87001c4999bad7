/** Pieces below this are joined, so that a million lines that wait are not a million objects. */
const SMALL_BYTES = 4 * 1024;
const BLOCK_BYTES = 16 * 1024;

/** Bytes that wait for their reader, in order. */
export class ByteQueue {
  /** Bytes that wait. */
  length = 0;
  readonly #pieces: Buffer[] = [];
  /** The last piece's memory, while small ones are joined in it. */
  #block: Buffer | null = null;

  /** Keeps the memory of a large piece, copies a small one unless nothing waits. */
  push(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.length += bytes.length;
    if (bytes.length >= SMALL_BYTES || this.#pieces.length === 0) {
      this.#pieces.push(bytes);
      this.#block = null;
    } else {
      this.#join(bytes);
    }
  }

  /** The oldest bytes, null without any. */
  take(): Buffer | null {
    const piece = this.#pieces.shift() ?? null;
    if (this.#pieces.length === 0) this.#block = null;
    this.length -= piece?.length ?? 0;
    return piece;
  }

  clear(): void {
    this.#pieces.length = 0;
    this.#block = null;
    this.length = 0;
  }

  #join(bytes: Buffer): void {
    const last = this.#pieces.length - 1;
    const filled = this.#block === null ? 0 : (this.#pieces[last] as Buffer).length;
    if (this.#block !== null && filled + bytes.length <= BLOCK_BYTES) {
      bytes.copy(this.#block, filled);
      this.#pieces[last] = this.#block.subarray(0, filled + bytes.length);
      return;
    }
    this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    bytes.copy(this.#block);
    this.#pieces.push(this.#block.subarray(0, bytes.length));
  }
}
