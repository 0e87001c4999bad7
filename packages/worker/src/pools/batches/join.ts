import { BATCH_CONTENT_TYPE, type BatchField, type BatchSummary, encodeBatch } from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch } from "../../worker.ts";
import type { Column } from "./columns.ts";
import type { ShardResult } from "./result.ts";

/** Below this a reply is one buffer: copying costs less than more entries in the write vector. */
const oneBufferBytes = 64 * 1024;
const comma = Buffer.from(",");
const open = { list: Buffer.from("["), members: Buffer.from("{") };
const close = { list: Buffer.from("]"), members: Buffer.from("}") };

interface BatchTail {
  failed: number[];
  warnings: string[];
  timing: { worker_ms: number; slowest_ms: number; slowest_row: number | null; stragglers: number[] };
}

/**
 * Joins the shards' fragments into one reply, in index order and without reading them.
 *
 * @param seq null for observations, which have no number
 */
export function joinResults(
  seq: number | null,
  encoding: BatchEncoding,
  columns: readonly Column[],
  results: readonly ShardResult[],
  startedMs: number,
): EncodedBatch {
  const tail = joinTails(results, startedMs);
  const joined = encoding === "json" ? joinJson(seq, columns, results, tail) : joinBinary(seq, columns, results, tail);
  return { ...joined, summary: summarise(columns, results, tail) };
}

function joinTails(results: readonly ShardResult[], startedMs: number): BatchTail {
  const failed: number[] = [];
  const stragglers: number[] = [];
  const warnings: string[] = [];
  let slowest: ShardResult | undefined;
  for (const result of results) {
    if (result.failed.length > 0) failed.push(...result.failed);
    if (result.stragglers.length > 0) stragglers.push(...result.stragglers);
    if (result.warnings.length > 0) warnings.push(...result.warnings);
    if (slowest === undefined || result.slowestMicroseconds > slowest.slowestMicroseconds) slowest = result;
  }
  return {
    failed,
    warnings,
    timing: {
      worker_ms: Math.round((performance.now() - startedMs) * 1000) / 1000,
      slowest_ms: (slowest?.slowestMicroseconds ?? 0) / 1000,
      slowest_row: slowest?.slowestRow ?? null,
      stragglers,
    },
  };
}

function joinJson(seq: number | null, columns: readonly Column[], results: readonly ShardResult[], tail: BatchTail) {
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
  pieces.push(`${text}"failed":${JSON.stringify(tail.failed)},${warnings}"timing":${JSON.stringify(tail.timing)}}`);
  return { contentType: "application/json", ...gather(pieces) };
}

function gather(pieces: readonly (string | Buffer)[]): { chunks: Buffer[]; length: number } {
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

function joinBinary(seq: number | null, columns: readonly Column[], results: readonly ShardResult[], tail: BatchTail) {
  let rows = 0;
  for (const result of results) rows += result.rows;
  const fields = columns.map((column, index) => joinField(column, index, results, rows));
  const map: Record<string, unknown> = { rows, failed: tail.failed, timing: tail.timing };
  if (seq !== null) map.seq = seq;
  if (tail.warnings.length > 0) map.warnings = tail.warnings;
  const { chunks, length } = encodeBatch(map, fields);
  const whole = length <= oneBufferBytes && chunks.length > 1 ? [Buffer.concat(chunks, length)] : chunks;
  return { contentType: BATCH_CONTENT_TYPE, chunks: whole, length };
}

function joinField(column: Column, index: number, results: readonly ShardResult[], rows: number): BatchField {
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

const errorMark = Buffer.from('"sandpool_error":{"kind":"');

function summarise(columns: readonly Column[], results: readonly ShardResult[], tail: BatchTail): BatchSummary {
  let rows = 0;
  for (const result of results) rows += result.rows;
  const failures: Record<string, number> = {};
  if (tail.failed.length > 0) {
    // Only the kinds are wanted, so the text of the infos is searched rather than parsed.
    for (const result of results) countKinds(result.fragments[columns.length - 1] as Buffer, failures);
  }
  return { rows, stragglers: tail.timing.stragglers.length, failures };
}

function countKinds(infos: Buffer, failures: Record<string, number>): void {
  for (let at = infos.indexOf(errorMark); at !== -1; at = infos.indexOf(errorMark, at + 1)) {
    const start = at + errorMark.length;
    const kind = infos.toString("latin1", start, Math.min(infos.indexOf(0x22, start), start + 20));
    if (/^[a-z]+$/.test(kind)) failures[kind] = (failures[kind] ?? 0) + 1;
  }
}
