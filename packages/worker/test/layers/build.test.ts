import { execFile } from "node:child_process";
import { chmod, lstat, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findAgent } from "../../src/agent/find.ts";
import { type LocalArchiveStore, openArchiveStore } from "../../src/archives/store.ts";
import type { Driver, DriverName } from "../../src/drivers/driver.ts";
import { createDriver } from "../../src/drivers/drivers.ts";
import { ensureLayer } from "../../src/layers/ensure.ts";
import { type Layer, type LayerStore, openLayerStore } from "../../src/layers/store.ts";
import { defaultLimits } from "../../src/pools/limits.ts";
import { putEntries, type TarEntry } from "../fixtures/archive.ts";
import { leftovers } from "../fixtures/leftovers.ts";
import { until } from "../fixtures/pool.ts";

const run = promisify(execFile);
const owner = "owner-1";
const timeoutMs = 60_000;
let dataDir: string;
let archives: LocalArchiveStore;
let layers: LayerStore;
let drivers: Record<DriverName, Driver>;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpool-test-"));
  await chmod(dataDir, 0o711);
  archives = await openArchiveStore(join(dataDir, "archives"), defaultLimits.archives);
  layers = await openLayerStore(join(dataDir, "layers"));
  const options = { dataDir, agentPath: findAgent() };
  drivers = { namespace: createDriver("namespace", options), unisolated: createDriver("unisolated", options) };
});

afterEach(async () => {
  expect(await readdir(join(dataDir, "layers", "incoming"))).toEqual([]);
  expect(leftovers(dataDir)).toEqual([]);
  await rm(dataDir, { recursive: true, force: true });
});

async function ensure(
  entries: readonly TarEntry[],
  {
    isolation = "namespace" as DriverName,
    signal = new AbortController().signal,
    onProgress = (_done: number, _total: number): void => {},
  } = {},
): Promise<Layer | null> {
  const archiveSha256 = await putEntries(archives, owner, entries);
  const tree = await archives.tree(owner, archiveSha256);
  const driver = drivers[isolation];
  const request = {
    driver,
    tree,
    archiveSha256,
    entry: "env.py",
    pythonPath: "/usr/bin/python3",
    limits: defaultLimits,
    privateHosts: [],
  };
  return ensureLayer(layers, request, signal, onProgress);
}

const requirements = (content: string): TarEntry[] => [{ name: "requirements.txt", content }, { name: "env.py" }];

async function layerNames(): Promise<string[]> {
  return (await readdir(join(dataDir, "layers"))).filter((name) => name !== "incoming");
}

test("creates that want the same layer wait for one build, and it belongs to the host's root, compiled and read-only to others", {
  timeout: timeoutMs,
}, async () => {
  const progress: string[] = [];
  const onProgress = (done: number, total: number): void => void progress.push(`${done}/${total}`);
  const [first, second] = await Promise.all(
    [1, 2].map(() => ensure(requirements("iniconfig==2.1.0\n"), { onProgress })),
  );
  expect(first).toEqual(second);
  expect(await layerNames()).toEqual([first?.key]);
  expect(progress.at(-1)).toBe("4/4");
  const venv = first?.venv ?? "";
  const { stdout } = await run("find", [
    venv,
    "(",
    "-not",
    "-uid",
    "0",
    "-o",
    "-perm",
    "/6022",
    "-not",
    "-type",
    "l",
    ")",
  ]);
  expect(stdout).toBe("");
  const { stdout: compiled } = await run("find", [venv, "-path", "*iniconfig/__pycache__/__init__*.pyc"]);
  expect(compiled.trim().split("\n")).toHaveLength(1);
  expect((await readdir(venv)).filter((name) => name === ".cache" || name === ".tmp")).toEqual([]);
  expect((await lstat(join(venv, "bin/python"))).isSymbolicLink()).toBe(true);
});

test("inline script metadata is installed too, and with no driver that isolates directly", {
  timeout: timeoutMs,
}, async () => {
  const content = '# /// script\n# dependencies = ["iniconfig"]\n# ///\n';
  const layer = await ensure([{ name: "env.py", content }], { isolation: "unisolated" });
  const { stdout } = await run(join(layer?.venv ?? "", "bin/python"), [
    "-c",
    "import iniconfig; print(iniconfig.__name__)",
  ]);
  expect(stdout).toBe("iniconfig\n");
});

test("a package that does not exist fails with uv's words and leaves nothing", { timeout: timeoutMs }, async () => {
  const failed = ensure(requirements("sandpool-no-such-package-for-tests==1.0\n"));
  await expect(failed).rejects.toMatchObject({
    code: "dependency_failed",
    message: expect.stringContaining("sandpool-no-such-package-for-tests"),
  });
  expect(await layerNames()).toEqual([]);
});

test("an install reaches nothing but the index and its file hosts, and the refusal is named", {
  timeout: timeoutMs,
}, async () => {
  const failed = ensure(requirements("thing @ https://example.invalid/thing-1.0-py3-none-any.whl\n"));
  await expect(failed).rejects.toMatchObject({
    code: "dependency_failed",
    hint: expect.stringContaining("example.invalid:443 (not a host of the package index)"),
  });
});

test("when the last create that waits gives up, the build ends", { timeout: timeoutMs }, async () => {
  const abort = new AbortController();
  const started = Promise.withResolvers<void>();
  const waiting = ensure(requirements("iniconfig==2.0.0\n"), {
    signal: abort.signal,
    onProgress: () => started.resolve(),
  });
  await started.promise;
  abort.abort(new Error("gone"));
  await expect(waiting).rejects.toThrow("gone");
  expect(await layerNames()).toEqual([]);
});

test("a create that gives up does not end the build for the others", { timeout: timeoutMs }, async () => {
  const abort = new AbortController();
  const impatient = ensure(requirements("iniconfig==2.0.0\n"), {
    signal: abort.signal,
    onProgress: () => abort.abort(new Error("gone")),
  });
  const patient = ensure(requirements("iniconfig==2.0.0\n"));
  await expect(impatient).rejects.toThrow("gone");
  expect(await patient).toMatchObject({ key: expect.stringMatching(/^[0-9a-f]{64}$/) });
  await until(async () => (await layerNames()).length === 1);
});
