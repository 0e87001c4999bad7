import type { BatchSummary } from "@sandpool/protocol";
import type { BatchEncoding, EncodedBatch } from "../../worker.ts";
import type { Column } from "./columns.ts";
import { joinBinary } from "./join-binary.ts";
import { joinJson } from "./join-json.ts";
import type { ShardResult } from "./result.ts";
import { type BatchTail, joinTails } from "./tail.ts";

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

/** Counts the error kinds in a column of infos. */
export function countKinds(infos: Buffer, failures: Record<string, number>): void {
  for (let at = infos.indexOf(errorMark); at !== -1; at = infos.indexOf(errorMark, at + 1)) {
    const start = at + errorMark.length;
    const kind = infos.toString("latin1", start, Math.min(infos.indexOf(0x22, start), start + 20));
    if (/^[a-z]+$/.test(kind)) failures[kind] = (failures[kind] ?? 0) + 1;
  }
}
