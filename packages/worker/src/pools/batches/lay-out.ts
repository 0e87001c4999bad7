import type { BatchField } from "@sandpool/protocol";
import { oneBufferBytes } from "./join-json.ts";
import type { PlacedMessage } from "./template.ts";

/** In a large message: from here on a part is written from where it is; smaller ones between two of them are copied into one chunk. */
const largePartBytes = 16 * 1024;

/** A message as chunks to write one after another: one where it is small, else few, because each costs more than the copy of a small part. */
export function layOut({ head, offsets, length }: PlacedMessage, fields: readonly BatchField[]): Buffer[] {
  const leastBytes = length <= oneBufferBytes ? length + 1 : largePartBytes;
  const chunks: Buffer[] = [];
  let run = new Run(0);
  run.add(0, head);
  for (let index = 0; index < fields.length; index += 1) {
    let at = offsets[index] as number;
    for (const part of (fields[index] as BatchField).data) {
      if (part.length >= leastBytes) {
        run.end(at, chunks);
        chunks.push(part);
        run = new Run(at + part.length);
      } else {
        run.add(at, part);
      }
      at += part.length;
    }
  }
  run.end(length, chunks);
  return chunks;
}

/** Parts that become one chunk, with zeros between them. */
class Run {
  readonly #start: number;
  readonly #places: number[] = [];
  readonly #parts: Buffer[] = [];

  constructor(start: number) {
    this.#start = start;
  }

  add(at: number, part: Buffer): void {
    this.#places.push(at - this.#start);
    this.#parts.push(part);
  }

  end(at: number, chunks: Buffer[]): void {
    if (at === this.#start) return;
    const chunk = Buffer.allocUnsafe(at - this.#start);
    let filled = 0;
    for (let index = 0; index < this.#parts.length; index += 1) {
      const place = this.#places[index] as number;
      if (place > filled) chunk.fill(0, filled, place);
      filled = place + (this.#parts[index] as Buffer).copy(chunk, place);
    }
    if (filled < chunk.length) chunk.fill(0, filled);
    chunks.push(chunk);
  }
}
