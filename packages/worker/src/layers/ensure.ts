import { randomBytes } from "node:crypto";
import { totalmem } from "node:os";
import type { Driver } from "../drivers/driver.ts";
import type { WorkerLimits } from "../pools/limits.ts";
import { type BuildInputs, buildIsolated } from "./build.ts";
import { buildUnisolated } from "./build-unisolated.ts";
import { readDependencies } from "./dependencies.ts";
import { findPackageIndex } from "./index.ts";
import { layerKey } from "./key.ts";
import type { Layer, LayerProgress, LayerStore } from "./store.ts";
import { findUv } from "./uv.ts";

export interface LayerRequest {
  driver: Driver;
  tree: string;
  archiveSha256: string;
  entry: string;
  pythonPath: string;
  limits: WorkerLimits;
  /** Package hosts whose private addresses the operator allows. */
  privateHosts: readonly string[];
}

const buildMemoryBytes = 4 * 2 ** 30;

/** The layer with what an archive asks for; null if it asks for nothing. Installed at most once for equal inputs. */
export async function ensureLayer(
  store: LayerStore,
  request: LayerRequest,
  signal: AbortSignal,
  progress: LayerProgress,
): Promise<Layer | null> {
  const dependencies = await readDependencies(request.tree, request.entry);
  if (dependencies === null) return null;
  const uv = await findUv();
  const index = await findPackageIndex(uv.path);
  const isolated = request.driver.name !== "unisolated";
  const { archiveSha256, pythonPath, limits } = request;
  const indexes = [index.default, ...index.extra];
  const key = await layerKey({ dependencies, archiveSha256, pythonPath, uvVersion: uv.version, indexes, isolated });
  const inputs: BuildInputs = {
    id: `layer-${randomBytes(8).toString("hex")}`,
    driver: request.driver,
    uv,
    index,
    dependencies,
    tree: request.tree,
    pythonPath,
    privateHosts: request.privateHosts,
    memoryBytes: Math.min(buildMemoryBytes, totalmem()),
    downloadBytes: limits.layerDownloadBytes,
    freeDiskBytes: limits.freeDiskBytes,
    timeoutMs: limits.layerBuildTimeoutMs,
  };
  const build = isolated ? buildIsolated : buildUnisolated;
  return store.ensure(key, (folder, abort, report) => build(inputs, folder, abort, report), signal, progress);
}
