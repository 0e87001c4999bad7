import type { AgentReply } from "../../agent/channel.ts";
import { fail } from "../../fail.ts";
import type { Column } from "./columns.ts";

/** What one shard contributes to a batch: one fragment for each column, for its selected rows in index order. */
export interface ShardResult {
  rows: number;
  fragments: readonly Buffer[];
  failed: readonly number[];
  stragglers: readonly number[];
  warnings: readonly string[];
  slowestMicroseconds: number;
  slowestRow: number | null;
  /** Of a fork or restore, for each row: what was reseeded. */
  reseeded?: readonly (readonly string[] | null)[];
  /** To be called once nobody will read the fragments any more. */
  release?: () => void;
}

const none: readonly never[] = [];

/**
 * Cuts an agent's reply into its columns without reading them.
 * @throws `agent_failed` where the columns are not those of the contract: a wrong length would shift every row behind it
 */
export function readShardResult(reply: AgentReply, columns: readonly Column[], rows: number): ShardResult {
  const { head, body } = reply;
  const sent = head.columns as readonly { name?: unknown; length?: unknown }[] | undefined;
  if (!Array.isArray(sent) || sent.length !== columns.length || head.rows !== rows)
    throw outOfForm(head, columns, rows);
  const fragments: Buffer[] = new Array(columns.length);
  let at = 0;
  for (let index = 0; index < columns.length; index += 1) {
    const column = columns[index] as Column;
    const { name, length } = sent[index] as { name?: unknown; length?: unknown };
    const fits = typeof length === "number" && (column.form !== "raw" || length === column.rowBytes * rows);
    if (name !== column.name || !fits || at + length > body.length) throw outOfForm(head, columns, rows);
    fragments[index] = body.subarray(at, at + length);
    at += length;
  }
  if (at !== body.length) throw outOfForm(head, columns, rows);
  const timing = (head.timing ?? {}) as { slowest_us?: number; slowest_row?: number | null };
  return {
    rows,
    fragments,
    failed: (head.failed as number[] | undefined) ?? none,
    stragglers: (head.stragglers as number[] | undefined) ?? none,
    warnings: (head.warnings as string[] | undefined) ?? none,
    slowestMicroseconds: timing.slowest_us ?? 0,
    slowestRow: timing.slowest_row ?? null,
    ...(head.reseeded === undefined ? {} : { reseeded: readReseeded(head.reseeded, rows) }),
    ...(reply.release === undefined ? {} : { release: reply.release }),
  };
}

function readReseeded(given: unknown, rows: number): (string[] | null)[] {
  const lists: unknown[] = Array.isArray(given) ? given : [];
  return Array.from({ length: rows }, (_, at) => {
    const list = lists[at];
    return Array.isArray(list) ? list.map(String) : null;
  });
}

function outOfForm(head: Record<string, unknown>, columns: readonly Column[], rows: number): Error {
  const expected = columns.map((column) =>
    column.form === "raw" ? `${column.name}(${column.rowBytes * rows})` : column.name,
  );
  return fail(
    "agent_failed",
    `An agent's batch reply has the columns ${JSON.stringify(head.columns)?.slice(0, 500)} for ${String(head.rows)} rows; expected ${expected.join(", ")} for ${rows} rows.`,
    { hint: "The agent and the server may be of different versions; install both from one release." },
  );
}
