import { randomInt } from "node:crypto";
import { totalmem } from "node:os";
import { join } from "node:path";
import { type CreatePoolRequest, makeId, SandpoolError } from "@sandpool/protocol";
import type { LocalArchiveStore } from "../archives/store.ts";
import { type Driver, DriverError, type DriverProbe, type SandboxMount } from "../drivers/driver.ts";
import { fail } from "../fail.ts";
import { ensureLayer } from "../layers/ensure.ts";
import { insideVenv } from "../layers/install.ts";
import type { Layer, LayerStore } from "../layers/store.ts";
import { markOf } from "../storage/storage.ts";
import type { Uses } from "../storage/uses.ts";
import type { CreateOptions } from "../worker.ts";
import { checkEntry, checkRequest, type PoolFigures } from "./check.ts";
import { makeEnviron } from "./environ.ts";
import type { WorkerLimits } from "./limits.ts";
import type { PoolPlan } from "./plan.ts";
import { LocalPool } from "./pool.ts";
import { fromDriverError } from "./shards/start.ts";
import { startPool } from "./start.ts";

export interface CreateContext {
  archives: LocalArchiveStore;
  layers: LayerStore;
  drivers: ReadonlyMap<string, Driver>;
  limits: WorkerLimits;
  privateHosts: readonly string[];
  agentPath: string | null;
  /** For workspaces where nothing isolates. */
  runFolder: string;
  /** Keeps archives and layers that a pool uses from being removed; null: nothing ever removes them. */
  kept: { uses: Uses; dataDir: string } | null;
}

/** Makes a pool: checks, dependency layer, sandboxes, environments, first reset. Whatever fails, nothing is left of it. */
export async function createPool(
  context: CreateContext,
  owner: string,
  request: CreatePoolRequest,
  rawBody: Buffer,
  options: CreateOptions,
  onClosing: (pool: LocalPool) => void,
): Promise<LocalPool> {
  const startedMs = performance.now();
  const uses = new AbortController();
  try {
    const figures = checkRequest(request, context.limits);
    const { driver, probe } = await findDriver(context, request.isolation);
    hold(context, "archives", request.archive, uses.signal);
    const tree = await context.archives.tree(owner, request.archive);
    await checkEntry(tree, request.entry);
    const layerStartedMs = performance.now();
    const layer = await findLayer(context, driver, tree, request, options);
    const layerMs = performance.now() - layerStartedMs;
    if (layer !== null) hold(context, "layers", layer.key, uses.signal);
    options.signal.throwIfAborted();
    const plan = makePlan({ context, owner, request, rawBody, figures, driver, probe, tree, layer });
    const { core, report } = await startPool(plan, request.seed ?? randomInt(2 ** 31), options);
    const totalMs = performance.now() - startedMs;
    const described = { ...report, layerMs, totalMs, warnings: [...figures.warnings, ...probe.warnings] };
    return new LocalPool(core, described, (pool) => {
      onClosing(pool);
      // `close`, which called this, gives every caller the same promise.
      queueMicrotask(() => void pool.close().finally(() => uses.abort()));
    });
  } catch (error) {
    uses.abort();
    if (options.signal.aborted) throw aborted(options.signal.reason);
    throw error instanceof DriverError ? fromDriverError(error) : error;
  }
}

/** Keeps it until the pool is closed or has failed. */
function hold({ kept }: CreateContext, kind: "archives" | "layers", id: string, until: AbortSignal): void {
  if (kept === null) return;
  const release = kept.uses.hold(kind, id, markOf(kept.dataDir, kind, id));
  until.addEventListener("abort", release, { once: true });
}

async function findDriver(context: CreateContext, name: string): Promise<{ driver: Driver; probe: DriverProbe }> {
  const driver = context.drivers.get(name);
  if (driver === undefined) {
    throw fail(
      "driver_unavailable",
      `isolation: received ${JSON.stringify(name)}; this server has ${[...context.drivers.keys()].join(", ")}.`,
      {
        hint:
          name === "unisolated"
            ? 'It protects nothing, so the operator must allow it: "sandpool up --allow-unisolated".'
            : 'Use isolation="namespace".',
        details: { received: name, available: [...context.drivers.keys()] },
      },
    );
  }
  if (context.agentPath === null) {
    throw fail("driver_unavailable", "The agent's binary was not found, and no sandbox can start without it.", {
      hint: "Build it with `cargo build --release` in agent/, or name it in SANDPOOL_AGENT.",
    });
  }
  const probe = await driver.probe();
  if (probe.available) return { driver, probe };
  throw fail(
    "driver_unavailable",
    `isolation: "${name}" cannot run on this host: ${probe.reason ?? "for an unknown reason"}.`,
    {
      hint: probe.hint ?? "Run `sandpool doctor`.",
    },
  );
}

async function findLayer(
  context: CreateContext,
  driver: Driver,
  tree: string,
  request: CreatePoolRequest,
  options: CreateOptions,
): Promise<Layer | null> {
  if (!request.entry.endsWith(".py")) return null;
  const { limits, privateHosts } = context;
  const { archive, entry, python } = request;
  const wanted = { driver, tree, archiveSha256: archive, entry, pythonPath: python, limits, privateHosts };
  return ensureLayer(context.layers, wanted, options.signal, (done, total) =>
    options.onProgress?.({ phase: "layer", done, total }),
  );
}

interface PlanInputs {
  context: CreateContext;
  owner: string;
  request: CreatePoolRequest;
  rawBody: Buffer;
  figures: PoolFigures;
  driver: Driver;
  probe: DriverProbe;
  tree: string;
  layer: Layer | null;
}

function makePlan({ context, owner, request, rawBody, figures, driver, probe, tree, layer }: PlanInputs): PoolPlan {
  const id = makeId("pool");
  const isolated = driver.name !== "unisolated";
  const isPython = request.entry.endsWith(".py");
  const cwd = isolated ? "/env" : tree;
  const venv = layer === null ? null : isolated ? insideVenv : layer.venv;
  const python = venv === null ? request.python : `${venv}/bin/python`;
  const program = join(cwd, request.entry);
  const mounts: SandboxMount[] = [{ source: tree, target: "/env", readOnly: true }];
  if (layer !== null) mounts.push({ source: layer.venv, target: insideVenv, readOnly: true });
  return {
    id,
    owner,
    request,
    rawBody,
    ranges: figures.ranges,
    rowsPerProcess: figures.rowsPerProcess,
    driver,
    probe,
    limits: context.limits,
    memoryBytes: figures.memoryBytes,
    workspaceBytes: figures.workspaceBytes,
    argv: isPython ? [python, "-u", program] : [program],
    environ: makeEnviron(id, request, venv),
    mounts,
    cwd,
    pythonPath: isPython ? request.python : null,
    workspacesFolder: isolated ? null : join(context.runFolder, id),
    hostMemoryBytes: totalmem(),
  };
}

function aborted(reason: unknown): SandpoolError {
  if (reason instanceof SandpoolError) return reason;
  return fail("creation_aborted", "The creation was given up before it ended; everything it had made was removed.", {
    cause: reason,
  });
}
