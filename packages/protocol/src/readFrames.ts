import {
  FRAME_HEADER_BYTES,
  type FrameKind,
  findMagic,
  frameChecksum,
  hasMagic,
  MAX_BODY_BYTES,
  MAX_HEAD_BYTES,
} from "./frames.ts";

/** A frame as it was read; `body` is memory of its own. */
export interface Frame {
  kind: FrameKind;
  sequence: number;
  head: Record<string, unknown>;
  body: Buffer;
}

/** A frame whose body is still on its way. */
interface Unfinished {
  /** Null: no JSON object, so the frame is dropped once its body has passed. */
  head: Record<string, unknown> | null;
  kind: FrameKind;
  sequence: number;
  body: Buffer;
  filledBytes: number;
  lengthBytes: number;
}

const SCRATCH_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Reads frames from a byte stream, however it is cut. After bytes that are no frame it goes on at the next magic.
 * A body is written once, into memory that `takeBody` gives; a source that reads into `space()` itself spares that copy too.
 *
 * @example
 * const reader = new FrameReader((frame) => handle(frame));
 * socket.on("data", (chunk) => reader.push(chunk));
 */
export class FrameReader {
  /** Bytes passed over because they belonged to no whole frame. */
  skippedBytes = 0;
  readonly #onFrame: (frame: Frame) => void;
  readonly #takeBody: (bytes: number) => Buffer;
  /** Heads, and the first bytes of bodies; used again and again. */
  #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  #filledBytes = 0;
  #unfinished: Unfinished | null = null;

  /** @param takeBody gives exactly that many bytes, of any content */
  constructor(onFrame: (frame: Frame) => void, takeBody: (bytes: number) => Buffer = Buffer.allocUnsafe) {
    this.#onFrame = onFrame;
    this.#takeBody = takeBody;
  }

  /** Where the next bytes belong: whoever reads some into its beginning says how many by `took`. Never empty. */
  space(): Buffer {
    const { body, filledBytes } = this.#unfinished ?? { body: this.#scratch, filledBytes: this.#filledBytes };
    return body.subarray(filledBytes);
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      const bytes = chunk.copy(this.space(), 0, at);
      at += bytes;
      this.took(bytes);
    }
  }

  /** That many bytes were read into the beginning of `space()`. */
  took(bytes: number): void {
    const unfinished = this.#unfinished;
    if (unfinished === null) {
      this.#filledBytes += bytes;
      this.#readScratch();
      return;
    }
    unfinished.filledBytes += bytes;
    if (unfinished.filledBytes < unfinished.body.length) return;
    this.#unfinished = null;
    this.#deliver(unfinished);
  }

  /** Delivers every whole frame, starts on the body of one that is not, and moves the rest to the front. */
  #readScratch(): void {
    const bytes = this.#scratch.subarray(0, this.#filledBytes);
    let at = 0;
    for (let next = 0; next !== -1; ) {
      next = this.#readOne(bytes, at);
      if (next !== -1) at = next;
    }
    this.#scratch.copyWithin(0, at, this.#filledBytes);
    this.#filledBytes -= at;
  }

  /** Where the bytes after the frame, or after what is none, start; -1 where more must come first. */
  #readOne(bytes: Buffer, at: number): number {
    if (this.#unfinished !== null) return -1;
    if (bytes.length - at >= 4 && !hasMagic(bytes, at)) return this.#skipTo(bytes, at);
    if (bytes.length - at < FRAME_HEADER_BYTES) return -1;
    const headLength = bytes.readUInt32LE(at + 12);
    const bodyLength = bytes.readUInt32LE(at + 16);
    if (headLength > MAX_HEAD_BYTES || bodyLength > MAX_BODY_BYTES) return this.#skipTo(bytes, at);
    const bodyAt = at + FRAME_HEADER_BYTES + headLength;
    if (bytes.length < bodyAt) {
      this.#makeRoom(bodyAt - at, at);
      return -1;
    }
    if (bytes.readUInt32LE(at + 20) !== frameChecksum(bytes.subarray(at), headLength)) return this.#skipTo(bytes, at);
    const frame: Unfinished = {
      head: parseHead(bytes.toString("utf8", at + FRAME_HEADER_BYTES, bodyAt)),
      kind: bytes.readUInt16LE(at + 8) as FrameKind,
      sequence: bytes.readUInt32LE(at + 4),
      body: bodyLength === 0 ? NOTHING : this.#takeBody(bodyLength),
      filledBytes: 0,
      lengthBytes: bodyAt + bodyLength - at,
    };
    frame.filledBytes = bytes.copy(frame.body, 0, bodyAt);
    if (frame.filledBytes < bodyLength) this.#unfinished = frame;
    else this.#deliver(frame);
    return bodyAt + frame.filledBytes;
  }

  /** A head larger than the scratch memory needs more of it. */
  #makeRoom(frameBytes: number, at: number): void {
    if (frameBytes <= this.#scratch.length) return;
    const larger = Buffer.allocUnsafeSlow(at + frameBytes);
    this.#scratch.copy(larger, 0, 0, this.#filledBytes);
    this.#scratch = larger;
  }

  #skipTo(bytes: Buffer, at: number): number {
    const next = findMagic(bytes, at + 1);
    this.skippedBytes += next - at;
    return next;
  }

  #deliver({ head, kind, sequence, body, lengthBytes }: Unfinished): void {
    if (head === null) this.skippedBytes += lengthBytes;
    else this.#onFrame({ kind, sequence, head, body });
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
