import { ExecFrameKind } from "@sandpool/protocol";

const HEAD_BYTES = 5;

/** A frame of a streamed exec's body: `u8 kind | u32 length LE | bytes`. */
export function execFrame(kind: keyof typeof ExecFrameKind, bytes: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  frame.writeUInt8(ExecFrameKind[kind], 0);
  frame.writeUInt32LE(bytes.length, 1);
  bytes.copy(frame, HEAD_BYTES);
  return frame;
}

export function jsonFrame(value: object): Buffer {
  return execFrame("json", Buffer.from(JSON.stringify(value)));
}
