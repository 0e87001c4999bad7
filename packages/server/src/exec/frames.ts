import { ExecFrameKind } from "@sandpool/protocol";

const HEAD_BYTES = 5;

/** A frame of a streamed exec's body: `u8 kind | u32 length LE | bytes`. */
export function execFrame(kind: keyof typeof ExecFrameKind, bytes: Buffer): Buffer[] {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUInt8(ExecFrameKind[kind], 0);
  head.writeUInt32LE(bytes.length, 1);
  return [head, bytes];
}

export function jsonFrame(value: object): Buffer[] {
  return execFrame("json", Buffer.from(JSON.stringify(value)));
}
