import { realpath, stat } from "node:fs/promises";
import { totalmem } from "node:os";
import { isAbsolute, join, relative } from "node:path";
import { type CreatePoolRequest, formatSize, parseSizeBytes } from "@sandpool/protocol";
import { fail } from "../fail.ts";
import type { WorkerLimits } from "./limits.ts";
import { planRows, type RowPlan } from "./packing/plan-rows.ts";

/** The figures of a create request after they were checked and capped. */
export interface PoolFigures extends RowPlan {
  memoryBytes: number;
  workspaceBytes: number;
  warnings: string[];
}

/** Checks a create request against this host's limits, before anything is made. @throws `invalid_request`, `image_not_found` */
export function checkRequest(request: CreatePoolRequest, limits: WorkerLimits): PoolFigures {
  if (request.n > limits.rowsMax) {
    throw invalid(
      `n: received ${request.n} rows; this server allows at most ${limits.rowsMax}`,
      "Use fewer rows or ask the operator to raise the limit.",
    );
  }
  if (Array.isArray(request.config) && request.config.length !== request.n) {
    throw invalid(
      `config: received a list of ${request.config.length}; a list has one item for each of the ${request.n} rows`,
      "Pass one dict for all rows, or a list of n.",
    );
  }
  if (request.image !== "host") {
    throw fail("image_not_found", `image: received ${JSON.stringify(request.image)}; pools run on the image "host".`, {
      hint: 'Leave image out, or pass "host"; Python packages come from the archive\'s requirements.txt.',
    });
  }
  if (request.network) {
    throw invalid(
      "network: received true; a pool's environments have no network",
      "Leave network out; put what the environment needs into its archive.",
    );
  }
  const warnings: string[] = [];
  return {
    ...planRows(request, limits, warnings),
    memoryBytes: capToHost(parseSizeBytes(request.memory, "memory"), "memory", warnings),
    workspaceBytes: capToHost(parseSizeBytes(request.workspace, "workspace"), "workspace", warnings),
    warnings,
  };
}

/** The program's path inside the archive, checked on disk. @throws `invalid_request` */
export async function checkEntry(tree: string, entry: string): Promise<void> {
  const real = await realpath(join(tree, entry)).catch(() => null);
  const inside = real === null ? "" : relative(await realpath(tree), real);
  if (isAbsolute(entry) || real === null || inside === "" || inside.startsWith("..")) {
    throw invalid(
      `entry: there is no ${JSON.stringify(entry)} in the archive`,
      "Name a file's path inside the archive, such as env.py.",
    );
  }
  const status = await stat(real);
  if (!status.isFile())
    throw invalid(`entry: ${JSON.stringify(entry)} is no regular file`, "Name the program itself, not its folder.");
  if (!entry.endsWith(".py") && (status.mode & 0o111) === 0) {
    throw invalid(
      `entry: ${JSON.stringify(entry)} is neither a .py file nor executable`,
      "Set its executable bit (chmod +x) before it is packed.",
    );
  }
}

function capToHost(bytes: number, field: string, warnings: string[]): number {
  const hostBytes = totalmem();
  if (bytes <= hostBytes) return bytes;
  warnings.push(
    `${field}: ${formatSize(bytes)} was asked for each environment; the host has ${formatSize(hostBytes)}, which is the limit now`,
  );
  return hostBytes;
}

function invalid(problem: string, hint: string): Error {
  return fail("invalid_request", `${problem}.`, { hint });
}
