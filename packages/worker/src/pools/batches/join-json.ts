import type { Column } from "./columns.ts";
import type { ShardResult } from "./result.ts";
import type { BatchTail } from "./tail.ts";

/** Below this a reply is one buffer: copying costs less than more entries in the write vector. */
export const oneBufferBytes = 64 * 1024;

/** The fragments of each column between brackets, then the tail. */
export function joinJson(
  seq: number | null,
  columns: readonly Column[],
  results: readonly ShardResult[],
  tail: BatchTail,
): { contentType: string; chunks: Buffer[]; length: number } {
  const pieces: (string | Buffer)[] = [];
  let text = seq === null ? "{" : `{"seq":${seq},`;
  for (let index = 0; index < columns.length; index += 1) {
    text += `"${(columns[index] as Column).name}":[`;
    let first = true;
    for (const result of results) {
      if (result.rows === 0) continue;
      pieces.push(first ? text : ",", result.fragments[index] as Buffer);
      if (first) text = "";
      first = false;
    }
    text += "],";
  }
  const warnings = tail.warnings.length > 0 ? `"warnings":${JSON.stringify(tail.warnings)},` : "";
  const reseeded = tail.reseeded === undefined ? "" : `"reseeded":${JSON.stringify(tail.reseeded)},`;
  pieces.push(
    `${text}"failed":${JSON.stringify(tail.failed)},${reseeded}${warnings}"timing":${JSON.stringify(tail.timing)}}`,
  );
  return { contentType: "application/json", ...gather(pieces) };
}

/** Pieces as chunks to write one after another: one where they are small. */
export function gather(pieces: readonly (string | Buffer)[]): { chunks: Buffer[]; length: number } {
  let length = 0;
  for (const piece of pieces) length += typeof piece === "string" ? Buffer.byteLength(piece) : piece.length;
  if (length > oneBufferBytes) {
    return { chunks: pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)), length };
  }
  const whole = Buffer.allocUnsafe(length);
  let at = 0;
  for (const piece of pieces) at += typeof piece === "string" ? whole.write(piece, at) : piece.copy(whole, at);
  return { chunks: [whole], length };
}
