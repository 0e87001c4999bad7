import { fail } from "../../fail.ts";
import type { BatchEncoding } from "../../worker.ts";
import type { Column } from "../batches/columns.ts";
import { readShardResult, type ShardResult } from "../batches/result.ts";

/**
 * Cuts an agent's event `results` into its columns without reading them.
 * @throws `agent_failed` where it names rows that are not with this agent, or is not in the form of the contract
 */
export function readResults(
  head: Readonly<Record<string, unknown>>,
  body: Buffer,
  encoding: BatchEncoding,
  columns: readonly Column[],
  isOut: (row: number) => boolean,
): { rows: readonly number[]; result: ShardResult } {
  const rows = head.rows as readonly number[];
  const isAscending = Array.isArray(rows) && rows.every((row, at) => at === 0 || row > (rows[at - 1] as number));
  if (!isAscending || rows.length === 0 || !rows.every(isOut) || head.encoding !== encoding) {
    throw fail(
      "agent_failed",
      `An agent sent results of the rows ${JSON.stringify(head.rows)?.slice(0, 200)} in ${JSON.stringify(head.encoding)}; rows that are out, ascending and in "${encoding}", were expected.`,
      { hint: "The agent and the server may be of different versions; install both from one release." },
    );
  }
  return { rows, result: readShardResult({ head: { ...head, rows: rows.length }, body }, columns, rows.length) };
}
