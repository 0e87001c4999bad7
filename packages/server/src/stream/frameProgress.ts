const LONGEST_HEAD_BYTES = 14;

/**
 * Follows a client's bytes through its WebSocket frames (RFC 6455, section 5.2), to know whether a message has begun and not ended:
 * the library does not tell. What is wrong in the frames is the library's to refuse.
 */
export class FrameProgress {
  readonly #head = Buffer.alloc(LONGEST_HEAD_BYTES);
  #headBytes = 0;
  #payloadLeft = 0;
  #isFragmented = false;

  get isInMessage(): boolean {
    return this.#headBytes > 0 || this.#payloadLeft > 0 || this.#isFragmented;
  }

  /** Takes the next bytes; tells whether a message ended in them. */
  feed(chunk: Buffer): boolean {
    let ended = false;
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, chunk.length - at);
        this.#payloadLeft -= taken;
        at += taken;
      } else {
        this.#head[this.#headBytes] = chunk[at] as number;
        this.#headBytes += 1;
        at += 1;
        if (this.#headBytes === this.#headLength()) this.#openFrame();
      }
      ended ||= !this.isInMessage;
    }
    return ended;
  }

  #headLength(): number {
    if (this.#headBytes < 2) return 2;
    const second = this.#head[1] as number;
    const length = second & 0x7f;
    return 2 + (length === 127 ? 8 : length === 126 ? 2 : 0) + (second & 0x80 ? 4 : 0);
  }

  #openFrame(): void {
    const first = this.#head[0] as number;
    const length = (this.#head[1] as number) & 0x7f;
    if (length === 127) this.#payloadLeft = Number(this.#head.readBigUInt64BE(2));
    else this.#payloadLeft = length === 126 ? this.#head.readUInt16BE(2) : length;
    this.#headBytes = 0;
    const isControl = (first & 0x08) !== 0;
    if (!isControl) this.#isFragmented = (first & 0x80) === 0;
  }
}
