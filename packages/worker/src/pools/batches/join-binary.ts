import { BATCH_CONTENT_TYPE, type BatchField, decodeBatch, encodeBatch } from "@sandpool/protocol";
import type { Column } from "./columns.ts";
import { oneBufferBytes } from "./join-json.ts";
import type { ShardResult } from "./result.ts";
import type { BatchTail } from "./tail.ts";

const comma = Buffer.from(",");
const open = { list: Buffer.from("["), members: Buffer.from("{") };
const close = { list: Buffer.from("]"), members: Buffer.from("}") };

/** One column after another, each the shards' buffers as they are, behind one map. */
export function joinBinary(
  seq: number | null,
  columns: readonly Column[],
  results: readonly ShardResult[],
  tail: BatchTail,
): { contentType: string; chunks: Buffer[]; length: number } {
  let rows = 0;
  for (const result of results) rows += result.rows;
  const fields = columns.map((column, index) => joinField(column, index, results, rows));
  const quick = seq === null ? null : fromTemplate(seq, columns, fields, rows, tail);
  if (quick !== null) return { contentType: BATCH_CONTENT_TYPE, chunks: [quick], length: quick.length };
  const map: Record<string, unknown> = { rows, failed: tail.failed, timing: tail.timing };
  if (seq !== null) map.seq = seq;
  if (tail.warnings.length > 0) map.warnings = tail.warnings;
  const { chunks, length } = encodeBatch(map, fields);
  const whole = length <= oneBufferBytes ? [Buffer.concat(chunks, length)] : chunks;
  return { contentType: BATCH_CONTENT_TYPE, chunks: whole, length };
}

/** One column as a field of a message: the shards' fragments one after another, JSON in its brackets. */
export function joinField(column: Column, index: number, results: readonly ShardResult[], rows: number): BatchField {
  const data: Buffer[] = [];
  if (column.form !== "raw") data.push(open[column.form]);
  for (const result of results) {
    const fragment = result.fragments[index] as Buffer;
    if (fragment.length === 0) continue;
    if (column.form !== "raw" && data.length > 1) data.push(comma);
    data.push(fragment);
  }
  if (column.form !== "raw") {
    data.push(close[column.form]);
    return { name: column.name, json: true, data };
  }
  const field: BatchField = { name: column.name, dtype: column.dtype, shape: [rows, ...column.shape], data };
  if (column.field !== null) field.field = column.field;
  return field;
}

/** A whole small message with empty columns, and where in it the figures of one batch stand. */
interface Template {
  message: Buffer;
  offsets: number[];
  seqAt: number;
  workerAt: number;
  slowestAt: number;
  rowAt: number;
}

/** Figures that stand in a message once only, in the widths that all others fit. */
const marks = { seq: 0xf0e1d2c3, worker: 1.234567890123e-201, slowest: 3.210987654321e-203, row: 0xf1e2d3c4 };
const mostTemplates = 32;
const templates = new WeakMap<readonly Column[], Map<string, Template | null>>();

/**
 * The message of a small batch without failures, from an earlier one of the same lengths: packing the same map anew costs more than the rest of
 * a small reply. Null for every other batch.
 */
function fromTemplate(
  seq: number,
  columns: readonly Column[],
  fields: readonly BatchField[],
  rows: number,
  tail: BatchTail,
): Buffer | null {
  const { failed, warnings, timing } = tail;
  if (failed.length > 0 || warnings.length > 0 || timing.stragglers.length > 0 || timing.slowest_row === null)
    return null;
  const template = findTemplate(columns, fields, rows);
  if (template === null) return null;
  const message = Buffer.allocUnsafe(template.message.length);
  template.message.copy(message);
  message.writeUInt32BE(seq, template.seqAt);
  message.writeDoubleBE(timing.worker_ms, template.workerAt);
  message.writeDoubleBE(timing.slowest_ms, template.slowestAt);
  message.writeUInt32BE(timing.slowest_row, template.rowAt);
  for (let index = 0; index < fields.length; index += 1) {
    let at = template.offsets[index] as number;
    for (const part of (fields[index] as BatchField).data) at += part.copy(message, at);
  }
  return message;
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
  const { chunks, length } = encodeBatch({ rows, failed: [], timing, seq: marks.seq }, fields);
  if (length > oneBufferBytes) return null;
  const message = Buffer.concat(chunks, length);
  const offsets = decodeBatch(message).fields.map((field) => field.data.byteOffset - message.byteOffset);
  // The mark's type byte goes before it: a column's content can then hardly be taken for it, and a second find gives the template up.
  const place = (type: number, bytes: Buffer): number => {
    const wanted = Buffer.concat([Buffer.from([type]), bytes]);
    const at = message.indexOf(wanted);
    return at === -1 || message.indexOf(wanted, at + 1) !== -1 ? -1 : at + 1;
  };
  const integer = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer).swap32();
  const double = (value: number): Buffer => Buffer.from(Float64Array.of(value).buffer).swap64();
  const template = {
    message,
    offsets,
    seqAt: place(0xce, integer(marks.seq)),
    workerAt: place(0xcb, double(marks.worker)),
    slowestAt: place(0xcb, double(marks.slowest)),
    rowAt: place(0xce, integer(marks.row)),
  };
  return Math.min(template.seqAt, template.workerAt, template.slowestAt, template.rowAt) < 0 ? null : template;
}
