import { BATCH_CONTENT_TYPE, type BatchField } from "@sandpool/protocol";
import type { Column } from "./columns.ts";
import { layOut } from "./lay-out.ts";
import type { ShardResult } from "./result.ts";
import type { BatchTail } from "./tail.ts";
import { fromTemplate, placeFields } from "./template.ts";

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
  const placed = quick ?? placeFields(mapOf(seq, rows, tail), fields);
  return { contentType: BATCH_CONTENT_TYPE, chunks: layOut(placed, fields), length: placed.length };
}

function mapOf(seq: number | null, rows: number, tail: BatchTail): Record<string, unknown> {
  const map: Record<string, unknown> = { rows, failed: tail.failed, timing: tail.timing };
  if (seq !== null) map.seq = seq;
  if (tail.reseeded !== undefined) map.reseeded = tail.reseeded;
  if (tail.warnings.length > 0) map.warnings = tail.warnings;
  return map;
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
