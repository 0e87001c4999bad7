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

/** Processes that one sandbox serves rather than that copies could not reach every row. */
const processesOfABranchingSandbox = 1024;

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
  if (shards === "auto" && request.branching && ranges.length > 1)
    warnings.push(dividedWarning(request, ranges.length));
  const isOneEach = ranges[0]?.count === 1;
  return { ranges, rowsPerProcess: requested !== "auto" ? requested : isOneEach ? 1 : null };
}

function checkProcesses(request: CreatePoolRequest, { processesMax }: WorkerLimits): void {
  const { n } = request;
  const processes = mostProcesses(request);
  if (processes <= processesMax) return;
  throw fail(
    "invalid_request",
    `n: received ${n} rows in ${inWords(request)}; this server allows at most ${processesMax} processes.`,
    { hint: `Pass envs_per_process=${Math.ceil(n / processesMax)} or more.`, details: { n, processes } },
  );
}

/** With "auto" each row may turn out to need a process of its own. */
function mostProcesses({ n, envs_per_process: requested }: CreatePoolRequest): number {
  return requested === "auto" ? n : countProcesses(n, requested);
}

function inWords(request: CreatePoolRequest): string {
  return `${request.envs_per_process === "auto" ? "up to " : ""}${mostProcesses(request)} processes`;
}

function dividedWarning(request: CreatePoolRequest, count: number): string {
  const why = `${inWords(request)} are more than the ${processesOfABranchingSandbox} that one sandbox gets by itself`;
  return `shards: the rows are divided over ${count} sandboxes, and none can be copied from one to another (${why}); pass shards=1 for one sandbox, or branching=False where nothing is copied`;
}

function chooseShards(request: CreatePoolRequest, limits: WorkerLimits): number {
  const { n, shards } = request;
  if (shards === "auto") {
    if (request.branching && mostProcesses(request) <= processesOfABranchingSandbox) return 1;
    return Math.min(cpus().length, Math.max(1, Math.floor(n / rowsWorthAShard)), limits.shardsMax);
  }
  const most = Math.min(n, limits.shardsMax);
  if (shards <= most) return shards;
  throw fail("invalid_request", `shards: received ${shards}; at most ${most} are possible for ${n} rows.`, {
    hint: 'Pass "auto" and leave the number to the server.',
  });
}
