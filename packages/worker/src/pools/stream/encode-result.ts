import { encodeBatch } from "@sandpool/protocol";
import type { BatchEncoding } from "../../worker.ts";
import type { Column } from "../batches/columns.ts";
import { joinField } from "../batches/join-binary.ts";
import { gather, oneBufferBytes } from "../batches/join-json.ts";
import type { ShardResult } from "../batches/result.ts";
import { joinTails } from "../batches/tail.ts";
import type { StreamMessage } from "./contract.ts";
import type { StreamOperation } from "./rows-out.ts";

/** Rows of one shard that finished, with their number in the session. */
export interface FinishedRows {
  number: number;
  rows: readonly number[];
  ops: readonly StreamOperation[];
  result: ShardResult;
  /** When the row that was out longest was accepted, by `performance.now()`. */
  sinceMs: number;
}

/** Wraps one shard's columns without reading or, beyond what a small message is, copying them. */
export function encodeResult(
  finished: FinishedRows,
  columns: readonly Column[],
  encoding: BatchEncoding,
): Omit<StreamMessage, "summary"> {
  return encoding === "json" ? encodeJson(finished, columns) : encodeBinary(finished, columns);
}

function encodeJson({ number, rows, ops, result, sinceMs }: FinishedRows, columns: readonly Column[]) {
  const tail = joinTails([result], sinceMs);
  let text = `{"number":${number},"where":[${rows.join(",")}],"ops":${JSON.stringify(ops)},`;
  const pieces: (string | Buffer)[] = [];
  for (const [index, column] of columns.entries()) {
    pieces.push(`${text}"${column.name}":[`, result.fragments[index] as Buffer);
    text = "],";
  }
  const warnings = tail.warnings.length > 0 ? `"warnings":${JSON.stringify(tail.warnings)},` : "";
  pieces.push(`${text}"failed":${JSON.stringify(tail.failed)},${warnings}"timing":${JSON.stringify(tail.timing)}}`);
  return { isText: true, ...gather(pieces) };
}

function encodeBinary({ number, rows, ops, result, sinceMs }: FinishedRows, columns: readonly Column[]) {
  const { failed, warnings, timing } = joinTails([result], sinceMs);
  const fields = columns.map((column, index) => joinField(column, index, [result], result.rows));
  const map = { number, where: rows, ops, rows: result.rows, failed, timing };
  const { chunks, length } = encodeBatch(warnings.length > 0 ? { ...map, warnings } : map, fields);
  return { isText: false, chunks: length <= oneBufferBytes ? [Buffer.concat(chunks, length)] : chunks, length };
}
