import { SandpoolError } from "@sandpool/protocol";

/** The bytes of a file that are asked for. */
export interface ByteRange {
  offset: number;
  length: number;
}

/**
 * The one range of a Range header (RFC 9110, section 14.1.2) in a file of `size` bytes; null where the whole file is to be sent: without a header,
 * and, as the RFC allows, where it has another unit, another form or several ranges.
 * @throws `range_invalid` where no byte of the file is in it
 */
export function readRange(header: string | undefined, size: number): ByteRange | null {
  const match = /^bytes=(?:([0-9]{1,15})-([0-9]{1,15})?|-([0-9]{1,15}))$/.exec(header ?? "");
  if (match === null) return null;
  const [, first, last, suffix] = match;
  if (suffix !== undefined) {
    const length = Math.min(Number(suffix), size);
    if (length > 0) return { offset: size - length, length };
  } else {
    const offset = Number(first);
    const end = Math.min(last === undefined ? size : Number(last) + 1, size);
    if (last !== undefined && Number(last) < offset) return null;
    if (offset < size) return { offset, length: end - offset };
  }
  throw new SandpoolError("range_invalid", `Range is ${JSON.stringify(header)}, and the file has ${size} bytes`, {
    hint: "ask for bytes that are there, or for the whole file",
    details: { size },
  });
}
