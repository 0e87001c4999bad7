import { cpus } from "node:os";
import type { CreatePoolRequest } from "@sandpool/protocol";
import { fail } from "../../fail.ts";
import type { WorkerLimits } from "../limits.ts";
import type { RowRange } from "../rows/ranges.ts";
import { countProcesses, divideEvenly, divideRows } from "./divide.ts";

/** Which rows each shard has. */
export interface RowPlan {
  ranges: readonly RowRange[];
  /** Null: chosen by the time of a step while the pool starts. */
  rowsPerProcess: number | null;
}

/** Rows that one agent serves before a second one pays: below, waking another process costs more than its core gives (bench topic `steps`). */
const rowsWorthAShard = 64;

/** Divides a pool's rows over shards of whole processes. @throws `invalid_request` */
export function planRows(request: CreatePoolRequest, limits: WorkerLimits, warnings: string[]): RowPlan {
  const { n, envs_per_process: requested, shards } = request;
  if (requested !== "auto" && requested > n) {
    throw fail("invalid_request", `envs_per_process: received ${requested}; the pool has ${n} rows.`, {
      hint: `Pass an integer from 1 to ${n}, or "auto".`,
      details: { received: requested, n },
    });
  }
  checkProcesses(request, limits);
  const wanted = chooseShards(request, limits);
  const ranges = requested === "auto" ? divideEvenly(n, wanted) : divideRows(n, wanted, requested);
  if (shards !== "auto" && ranges.length < shards) {
    warnings.push(`shards: ${shards} were asked for; ${ranges.length} are made, so that each has whole processes`);
  }
  const isOneEach = ranges[0]?.count === 1;
  return { ranges, rowsPerProcess: requested !== "auto" ? requested : isOneEach ? 1 : null };
}

/** With "auto" each row may turn out to need a process of its own. */
function checkProcesses({ n, envs_per_process: requested }: CreatePoolRequest, { processesMax }: WorkerLimits): void {
  const processes = requested === "auto" ? n : countProcesses(n, requested);
  if (processes <= processesMax) return;
  const most = requested === "auto" ? "up to " : "";
  throw fail(
    "invalid_request",
    `n: received ${n} rows in ${most}${processes} processes; this server allows at most ${processesMax} processes.`,
    { hint: `Pass envs_per_process=${Math.ceil(n / processesMax)} or more.`, details: { n, processes } },
  );
}

function chooseShards(request: CreatePoolRequest, limits: WorkerLimits): number {
  const { n, shards } = request;
  if (shards === "auto") return Math.min(cpus().length, Math.max(1, Math.floor(n / rowsWorthAShard)), limits.shardsMax);
  const most = Math.min(n, limits.shardsMax);
  if (shards <= most) return shards;
  throw fail("invalid_request", `shards: received ${shards}; at most ${most} are possible for ${n} rows.`, {
    hint: 'Pass "auto" for one shard for each core.',
  });
}
