/** Smaller bodies are cheaper to allocate than to keep. */
const leastBytes = 64 * 1024;
/** One that a reply is read into while another's reader is still slow. */
const mostKept = 2;

/**
 * Memory for the bodies of one agent's large replies. A new buffer a batch would cost more than everything else Node does with it: each is
 * memory the kernel has to map and clear, and the collector runs for every few of them.
 */
export class Bodies {
  readonly #kept: Buffer[] = [];

  /** Memory of any content. */
  take(bytes: number): Buffer {
    if (bytes < leastBytes) return Buffer.allocUnsafe(bytes);
    const at = this.#kept.findIndex(({ length }) => length >= bytes && length / 2 <= bytes);
    const whole = at === -1 ? Buffer.allocUnsafeSlow(bytes + (bytes >> 3)) : (this.#kept.splice(at, 1)[0] as Buffer);
    return whole.subarray(0, bytes);
  }

  /** Takes back what `take` gave, once nobody will read it any more. What is never given back, the collector frees. */
  give(body: Buffer): void {
    if (body.length < leastBytes) return;
    this.#kept.push(Buffer.from(body.buffer as ArrayBuffer));
    if (this.#kept.length > mostKept) this.#kept.shift();
  }
}
