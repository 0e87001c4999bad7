import { crc32 } from "node:zlib";
import { SandpoolError } from "./errors.ts";

export const FRAME_HEADER_BYTES = 24;
export const MAX_HEAD_BYTES = 16 * 2 ** 20;
export const MAX_BODY_BYTES = 2 ** 30;
export const FRAME_KINDS = { request: 1, reply: 2, event: 3, data: 4 } as const;

export type FrameKind = (typeof FRAME_KINDS)[keyof typeof FRAME_KINDS];

const MAGIC = Buffer.from("SPF1", "latin1");

/**
 * One frame of the agent's channel (docs/internals/agent-channel.md) as the chunks to write one after another.
 * The body is never copied; the header and the head share the first chunk.
 */
export function encodeFrame(kind: FrameKind, sequence: number, head: object, body: readonly Buffer[] = []): Buffer[] {
  const headText = JSON.stringify(head);
  const headLength = Buffer.byteLength(headText);
  let bodyLength = 0;
  for (const part of body) bodyLength += part.length;
  if (headLength > MAX_HEAD_BYTES) throw tooLong("head", headLength, MAX_HEAD_BYTES);
  if (bodyLength > MAX_BODY_BYTES) throw tooLong("body", bodyLength, MAX_BODY_BYTES);
  const first = Buffer.allocUnsafe(FRAME_HEADER_BYTES + headLength);
  MAGIC.copy(first);
  first.writeUInt32LE(sequence, 4);
  first.writeUInt16LE(kind, 8);
  first.writeUInt16LE(0, 10);
  first.writeUInt32LE(headLength, 12);
  first.writeUInt32LE(bodyLength, 16);
  first.write(headText, FRAME_HEADER_BYTES, "utf8");
  first.writeUInt32LE(frameChecksum(first, headLength), 20);
  return [first, ...body];
}

/** The checksum of a frame whose header starts at the buffer's first byte: bytes 0..20 and the head, not the body. */
export function frameChecksum(frame: Buffer, headLength: number): number {
  const prefix = crc32(frame.subarray(0, 20));
  return crc32(frame.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + headLength), prefix);
}

/** Where the next magic, or a part of one at the very end, starts; the length if there is none. */
export function findMagic(bytes: Buffer, from: number): number {
  const found = bytes.indexOf(MAGIC, from);
  if (found !== -1) return found;
  for (let kept = Math.min(MAGIC.length - 1, bytes.length - from); kept > 0; kept -= 1) {
    if (bytes.subarray(bytes.length - kept).equals(MAGIC.subarray(0, kept))) return bytes.length - kept;
  }
  return bytes.length;
}

/** Whether the four bytes at `at` are the magic. */
export function hasMagic(bytes: Buffer, at: number): boolean {
  return bytes.readUInt32LE(at) === MAGIC.readUInt32LE(0);
}

function tooLong(what: string, received: number, limit: number): SandpoolError {
  return new SandpoolError("body_too_large", `a frame's ${what} has ${received} bytes, at most ${limit} are allowed`, {
    details: { received_bytes: received, limit_bytes: limit },
  });
}
