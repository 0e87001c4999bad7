import {
  FRAME_HEADER_BYTES,
  type FrameKind,
  findMagic,
  frameChecksum,
  hasMagic,
  MAX_BODY_BYTES,
  MAX_HEAD_BYTES,
} from "./frames.ts";

/** A frame as it was read; `body` is a view of the chunk it came in wherever one chunk held the whole frame. */
export interface Frame {
  kind: FrameKind;
  sequence: number;
  head: Record<string, unknown>;
  body: Buffer;
}

/**
 * Reads frames from a byte stream, however it is cut. After bytes that are no frame it goes on at the next magic.
 * A frame that spans chunks is joined once, when its last byte is there.
 *
 * @example
 * const reader = new FrameReader((frame) => handle(frame));
 * socket.on("data", (chunk) => reader.push(chunk));
 */
export class FrameReader {
  /** Bytes passed over because they belonged to no whole frame. */
  skippedBytes = 0;
  readonly #onFrame: (frame: Frame) => void;
  #chunks: Buffer[] = [];
  #bufferedBytes = 0;
  #neededBytes = FRAME_HEADER_BYTES;

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bufferedBytes += chunk.length;
    if (this.#bufferedBytes < this.#neededBytes) return;
    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#bufferedBytes);
    this.#chunks = [];
    this.#bufferedBytes = 0;
    this.#keep(bytes.subarray(this.#readAll(bytes)));
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return;
    this.#chunks = [rest];
    this.#bufferedBytes = rest.length;
  }

  /** Delivers every whole frame; returns where the unread rest starts. */
  #readAll(bytes: Buffer): number {
    let at = 0;
    for (;;) {
      this.#neededBytes = FRAME_HEADER_BYTES;
      if (bytes.length - at >= 4 && !hasMagic(bytes, at)) at = this.#skipTo(bytes, at);
      if (bytes.length - at < FRAME_HEADER_BYTES) return at;
      const headLength = bytes.readUInt32LE(at + 12);
      const bodyLength = bytes.readUInt32LE(at + 16);
      if (headLength > MAX_HEAD_BYTES || bodyLength > MAX_BODY_BYTES) {
        at = this.#skipTo(bytes, at);
        continue;
      }
      const bodyAt = at + FRAME_HEADER_BYTES + headLength;
      this.#neededBytes = bodyAt - at;
      if (bytes.length < bodyAt) return at;
      if (bytes.readUInt32LE(at + 20) !== frameChecksum(bytes.subarray(at), headLength)) {
        at = this.#skipTo(bytes, at);
        continue;
      }
      this.#neededBytes = bodyAt + bodyLength - at;
      if (bytes.length < bodyAt + bodyLength) return at;
      this.#deliver(bytes, at, bodyAt, bodyAt + bodyLength);
      at = bodyAt + bodyLength;
    }
  }

  #skipTo(bytes: Buffer, at: number): number {
    const next = findMagic(bytes, at + 1);
    this.skippedBytes += next - at;
    return next;
  }

  #deliver(bytes: Buffer, at: number, bodyAt: number, end: number): void {
    const head = parseHead(bytes.toString("utf8", at + FRAME_HEADER_BYTES, bodyAt));
    if (head === null) {
      this.skippedBytes += end - at;
      return;
    }
    this.#onFrame({
      kind: bytes.readUInt16LE(at + 8) as FrameKind,
      sequence: bytes.readUInt32LE(at + 4),
      head,
      body: bytes.subarray(bodyAt, end),
    });
  }
}

function parseHead(text: string): Record<string, unknown> | null {
  try {
    const head: unknown = JSON.parse(text);
    return typeof head === "object" && head !== null && !Array.isArray(head) ? (head as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
