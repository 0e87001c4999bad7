import { formatSize, type Vector } from "@sandpool/protocol";
import { type PoolReply, Sandpool } from "sandpool";
import { EXIT } from "../output/failure.ts";
import { type Cell, type Output, safe, safeLines } from "../output/output.ts";
import { withSpinner } from "../output/progress.ts";

export async function listPools(output: Output): Promise<number> {
  const pools = await new Sandpool().listPools();
  if (output.json) output.document({ pools });
  else if (pools.length === 0) output.line("No pools.");
  else {
    const rows = pools.map((pool): Cell[] => [
      pool.id,
      pool.name,
      pool.n,
      pool.state,
      pool.start.way,
      pool.isolation,
      pool.lease.expires_at,
    ]);
    output.table(["ID", "NAME", "N", "STATE", "START", "ISOLATION", "LEASE UNTIL"], rows);
  }
  return EXIT.ok;
}

/** One pool: its facts, then its rows; with `memory` each row's PSS. */
export async function poolStatus(output: Output, idOrName: string, options: { memory: boolean }): Promise<number> {
  const pool = await new Sandpool().poolStatus(idOrName, options);
  if (output.json) output.document(pool);
  else printStatus(output, pool);
  return EXIT.ok;
}

/** The last 64 KiB of a row's standard error, escaped; `--json` has the text as it came. */
export async function poolLogs(output: Output, idOrName: string, options: { row: number }): Promise<number> {
  const text = await new Sandpool().poolLogs(idOrName, options.row);
  if (output.json) output.document({ row: options.row, text });
  else if (text !== "") output.line(safeLines(text.replace(/\n$/, "")));
  return EXIT.ok;
}

export async function closePool(output: Output, idOrName: string): Promise<number> {
  const closed = await withSpinner(output, "closing the pool", () => new Sandpool().closePool(idOrName));
  if (output.json) output.document(closed);
  else output.line(`Closed ${safe(closed.id)}; nothing of it is left.`);
  return EXIT.ok;
}

function printStatus(output: Output, pool: PoolReply): void {
  const { counters, memory } = pool;
  const facts: [string, Cell][] = [
    ["id", pool.id],
    ["name", pool.name],
    ["state", pool.state],
    ["environments", `${pool.n} in ${pool.shards} shards, ${pool.isolation}`],
    ["packing", packingOf(pool)],
    ...(pool.vector === null ? [] : [["vectorised", vectorOf(pool.vector)] satisfies [string, Cell]]),
    ["program", pool.entry],
    ["started by", pool.start.reason === null ? pool.start.way : `${pool.start.way}: ${pool.start.reason}`],
    ["seed", pool.seed],
    ["lease until", pool.lease.expires_at],
    ["replacements", counters?.replacements],
    ["stragglers", counters?.stragglers],
    [
      "memory",
      memory
        ? `${formatSize(memory.environments_pss_bytes)} in environments (${memory.method})`
        : "not sampled (--memory)",
    ],
    ...pool.warnings.map((warning): [string, Cell] => ["warning", warning]),
  ];
  for (const [name, value] of facts) output.line(`${output.colors.bold(name.padEnd(13))} ${safe(value)}`);
  output.line();
  const rows = (pool.rows ?? []).map((row): Cell[] => [
    row.row,
    row.state,
    row.pid,
    row.episode,
    row.replacements,
    typeof row.pss_bytes === "number" ? formatSize(row.pss_bytes) : null,
    row.error === null ? null : `${String(row.error.kind)}: ${String(row.error.message)}`,
  ]);
  output.table(["ROW", "STATE", "PID", "EPISODE", "REPLACED", "MEMORY", "ERROR"], rows);
}

function packingOf({ packing }: PoolReply): string {
  const { requested, rows_per_process: rows, processes, reason } = packing;
  const counted = `${processes} ${processes === 1 ? "process" : "processes"} of ${rows} ${rows === 1 ? "row" : "rows"}`;
  return requested === "auto" ? `${counted}, chosen: ${reason}` : counted;
}

function vectorOf(vector: Vector): string {
  const able = [vector.partial_reset ? "resets a part" : "", vector.row_seeds ? "takes a seed a row" : ""].filter(
    Boolean,
  );
  return [vector.class, `autoreset ${vector.autoreset ?? "none"}`, ...able].join(", ");
}
