import type { Writable } from "node:stream";
import { FRAME_HEADER_BYTES, FRAME_KINDS, frameChecksum, MAX_BODY_BYTES, SandpoolError } from "@sandpool/protocol";

const magic = Buffer.from("SPF1", "latin1").readUInt32LE(0);
/** Up to here one copy costs less than a second entry in the write vector. */
const copiedBytes = 16 * 1024;

/**
 * Writes one request in one system call. Unlike `encodeFrame` it takes the head as text, most of which a pool prepares beforehand.
 * @throws `body_too_large` before anything is written
 */
export function writeRequest(channel: Writable, sequence: number, headText: string, body: Buffer | null): void {
  const bodyLength = body === null ? 0 : body.length;
  if (bodyLength > MAX_BODY_BYTES) {
    throw new SandpoolError(
      "body_too_large",
      `a request to the agent has ${bodyLength} bytes, at most ${MAX_BODY_BYTES} are allowed`,
    );
  }
  const headLength = Buffer.byteLength(headText);
  const headEnd = FRAME_HEADER_BYTES + headLength;
  const joined = body !== null && bodyLength <= copiedBytes;
  const frame = Buffer.allocUnsafe(joined ? headEnd + bodyLength : headEnd);
  frame.writeUInt32LE(magic, 0);
  frame.writeUInt32LE(sequence, 4);
  frame.writeUInt16LE(FRAME_KINDS.request, 8);
  frame.writeUInt16LE(0, 10);
  frame.writeUInt32LE(headLength, 12);
  frame.writeUInt32LE(bodyLength, 16);
  frame.write(headText, FRAME_HEADER_BYTES, "utf8");
  frame.writeUInt32LE(frameChecksum(frame, headLength), 20);
  if (body === null || joined) {
    if (body !== null) body.copy(frame, headEnd);
    channel.write(frame);
    return;
  }
  channel.cork();
  channel.write(frame);
  channel.write(body);
  channel.uncork();
}
