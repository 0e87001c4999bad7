import { Packr } from "msgpackr";
import { SandpoolError } from "./errors.ts";
import { type PlainValue, readMsgpack } from "./readMsgpack.ts";

export const BATCH_CONTENT_TYPE = "application/vnd.sandpool.batch";
export const BATCH_ALIGNMENT_BYTES = 64;

const packr = new Packr({ useRecords: false, encodeUndefinedAsNil: true });
const ZEROS = Buffer.alloc(BATCH_ALIGNMENT_BYTES);

/** One buffer of a message before it has a place: `data` is one column's fragments, written one after another. */
export interface BatchField {
  name: string;
  /** Index into the layout's fields, for observations. */
  field?: number;
  dtype?: string;
  shape?: readonly number[];
  /** The buffer is UTF-8 JSON text. */
  json?: true;
  data: readonly Buffer[];
}

export interface DecodedBatch {
  /** The map without `fields`. */
  map: { [key: string]: PlainValue };
  fields: DecodedField[];
}

export interface DecodedField {
  name: string;
  field: number | null;
  dtype: string | null;
  shape: number[] | null;
  json: boolean;
  /** A view of the message, starting at a multiple of 64 from the message's start. */
  data: Buffer;
}

/**
 * A message of `application/vnd.sandpool.batch` as chunks to write one after another: `u32 length (little-endian) |
 * msgpack map | padding | buffers`, each buffer at a multiple of 64 bytes from the start. Buffers are not copied.
 *
 * @example encodeBatch({ seq: 1, rows: 2 }, [{ name: "rewards", dtype: "<f8", shape: [2], data: [bytes] }])
 */
export function encodeBatch(
  map: Readonly<Record<string, unknown>>,
  fields: readonly BatchField[],
): { chunks: Buffer[]; length: number } {
  const lengths = fields.map((field) => field.data.reduce((sum, part) => sum + part.length, 0));
  const { start, packed } = packMap(map, fields, lengths);
  const head = Buffer.alloc(start);
  head.writeUInt32LE(packed.length, 0);
  packed.copy(head, 4);
  const chunks: Buffer[] = [head];
  let at = start;
  for (const [index, field] of fields.entries()) {
    const place = align(at);
    if (place > at) chunks.push(ZEROS.subarray(0, place - at));
    for (const part of field.data) if (part.length > 0) chunks.push(part);
    at = place + (lengths[index] as number);
  }
  return { chunks, length: at };
}

/** The offsets stand in the map and the map's length decides them, so packing repeats until the start is far enough. */
function packMap(map: Readonly<Record<string, unknown>>, fields: readonly BatchField[], lengths: readonly number[]) {
  let start = align(4 + 64 * (fields.length + 1));
  for (;;) {
    let at = start;
    const placed = fields.map(({ data: _, ...field }, index) => {
      const offset = align(at);
      const length = lengths[index] as number;
      at = offset + length;
      return { ...field, offset, length };
    });
    const packed = packr.pack({ ...map, fields: placed });
    if (packed.length + 4 <= start) return { start, packed };
    start = align(packed.length + 4 + BATCH_ALIGNMENT_BYTES);
  }
}

/** Takes a whole message apart; every field is a view of it. Throws `invalid_request` for anything out of form. */
export function decodeBatch(message: Buffer): DecodedBatch {
  const mapLength = message.length < 4 ? -1 : message.readUInt32LE(0);
  if (mapLength < 0 || mapLength > message.length - 4) {
    throw refuse(`a message of ${message.length} bytes announces a map of ${mapLength} bytes`);
  }
  const map = readMsgpack(message.subarray(4, 4 + mapLength));
  if (!isMap(map)) throw refuse("the message does not start with a map");
  const { fields, ...rest } = map;
  if (!Array.isArray(fields)) throw refuse(`"fields" is ${JSON.stringify(fields)}, not a list`);
  return { map: rest, fields: fields.map((field) => decodeField(message, field, 4 + mapLength)) };
}

function decodeField(message: Buffer, field: PlainValue, after: number): DecodedField {
  if (!isMap(field) || typeof field.name !== "string") throw refuse("a field is no map with a name");
  const { name, offset, length } = field;
  if (!isCount(offset) || !isCount(length)) throw refuse(`field "${name}" has no offset and length`);
  if (offset % BATCH_ALIGNMENT_BYTES !== 0) throw refuse(`field "${name}" starts at ${offset}, not a multiple of 64`);
  if (offset < after || offset + length > message.length) {
    throw refuse(`field "${name}" spans ${offset}..${offset + length}, outside ${after}..${message.length}`);
  }
  const shape = field.shape;
  if (shape !== undefined && !(Array.isArray(shape) && shape.every(isCount))) {
    throw refuse(`field "${name}" has the shape ${JSON.stringify(shape)}, not a list of whole numbers`);
  }
  return {
    name,
    field: isCount(field.field) ? field.field : null,
    dtype: typeof field.dtype === "string" ? field.dtype : null,
    shape: (shape as number[] | undefined) ?? null,
    json: field.json === true,
    data: message.subarray(offset, offset + length),
  };
}

function isMap(value: PlainValue | undefined): value is { [key: string]: PlainValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function align(bytes: number): number {
  return Math.ceil(bytes / BATCH_ALIGNMENT_BYTES) * BATCH_ALIGNMENT_BYTES;
}

function refuse(message: string): SandpoolError {
  return new SandpoolError("invalid_request", `binary batch: ${message}`, {
    hint: "docs/internals/http-api.md, section Batch, binary, gives the form",
  });
}
