import { BATCH_ALIGNMENT_BYTES, type BatchField, encodeBatch } from "@sandpool/protocol";
import type { Column } from "./columns.ts";
import type { BatchTail } from "./tail.ts";

/** The beginning of a message, up to its first buffer, and where in it the figures of one batch stand. */
interface Template {
  head: Buffer;
  /** Where each field begins in the message. */
  offsets: readonly number[];
  length: number;
  seqAt: number;
  workerAt: number;
  slowestAt: number;
  rowAt: number;
}

/** Figures that stand in a head once only, in the widths that all others fit. */
const marks = { seq: 0xf0e1d2c3, worker: 1.234567890123e-201, slowest: 3.210987654321e-203, row: 0xf1e2d3c4 };
const mostTemplates = 32;
const templates = new WeakMap<readonly Column[], Map<string, Template | null>>();

/** A message's parts in their places. */
export interface PlacedMessage {
  head: Buffer;
  offsets: readonly number[];
  length: number;
}

/**
 * The head of a batch without failures, from an earlier one of the same lengths: packing the same map anew costs more than the rest of a small
 * reply. Null for every other batch.
 */
export function fromTemplate(
  seq: number,
  columns: readonly Column[],
  fields: readonly BatchField[],
  rows: number,
  tail: BatchTail,
): PlacedMessage | null {
  const { failed, warnings, timing, reseeded } = tail;
  if (
    reseeded !== undefined ||
    failed.length > 0 ||
    warnings.length > 0 ||
    timing.stragglers.length > 0 ||
    timing.slowest_row === null
  )
    return null;
  const template = findTemplate(columns, fields, rows);
  if (template === null) return null;
  const head = Buffer.allocUnsafe(template.head.length);
  template.head.copy(head);
  head.writeUInt32BE(seq, template.seqAt);
  head.writeDoubleBE(timing.worker_ms, template.workerAt);
  head.writeDoubleBE(timing.slowest_ms, template.slowestAt);
  head.writeUInt32BE(timing.slowest_row, template.rowAt);
  return { head, offsets: template.offsets, length: template.length };
}

function findTemplate(columns: readonly Column[], fields: readonly BatchField[], rows: number): Template | null {
  let known = templates.get(columns);
  if (known === undefined) {
    known = new Map();
    templates.set(columns, known);
  }
  let key = `${rows}`;
  for (const field of fields) {
    let length = 0;
    for (const part of field.data) length += part.length;
    key += ` ${length}`;
  }
  let template = known.get(key);
  if (template === undefined) {
    if (known.size >= mostTemplates) known.clear();
    template = makeTemplate(fields, rows);
    known.set(key, template);
  }
  return template;
}

function makeTemplate(fields: readonly BatchField[], rows: number): Template | null {
  const timing = { worker_ms: marks.worker, slowest_ms: marks.slowest, slowest_row: marks.row, stragglers: [] };
  const { head, offsets, length } = placeFields({ rows, failed: [], timing, seq: marks.seq }, fields);
  const place = (type: number, bytes: Buffer): number => {
    const wanted = Buffer.concat([Buffer.from([type]), bytes]);
    const at = head.indexOf(wanted);
    return at === -1 || head.indexOf(wanted, at + 1) !== -1 ? -1 : at + 1;
  };
  const integer = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer).swap32();
  const double = (value: number): Buffer => Buffer.from(Float64Array.of(value).buffer).swap64();
  const template = {
    head,
    offsets,
    length,
    seqAt: place(0xce, integer(marks.seq)),
    workerAt: place(0xcb, double(marks.worker)),
    slowestAt: place(0xcb, double(marks.slowest)),
    rowAt: place(0xce, integer(marks.row)),
  };
  return Math.min(template.seqAt, template.workerAt, template.slowestAt, template.rowAt) < 0 ? null : template;
}

/** Packs a map anew and says where its fields belong. */
export function placeFields(map: Readonly<Record<string, unknown>>, fields: readonly BatchField[]): PlacedMessage {
  const { chunks, length } = encodeBatch(map, fields);
  const head = chunks[0] as Buffer;
  let at = head.length;
  const offsets = fields.map((field) => {
    const offset = Math.ceil(at / BATCH_ALIGNMENT_BYTES) * BATCH_ALIGNMENT_BYTES;
    at = offset + field.data.reduce((sum, part) => sum + part.length, 0);
    return offset;
  });
  return { head, offsets, length };
}
