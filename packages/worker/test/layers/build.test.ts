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
  const made = (["namespace", "gvisor", "unisolated"] as const).map((name) => [name, createDriver(name, options)]);
  drivers = Object.fromEntries(made) as Record<DriverName, Driver>;
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

/** A package of the archive whose build, with nothing downloaded, runs this Python in the sandbox. */
const building = (python: string): TarEntry[] => [
  ...requirements("./package\n"),
  {
    name: "package/pyproject.toml",
    content: '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
  },
  { name: "package/b.py", content: `import os\nos.chdir("/sandpool/venv")\n${python}` },
];
/** Twelve thousand characters deep, where a path may have 4,096. */
const DEEP = 'for _ in range(60):\n    os.mkdir("d" * 200)\n    os.chdir("d" * 200)\n';
const SHUT = 'os.makedirs("shut/inner")\nos.chmod("shut", 0)\n';

test("what a failed build leaves is removed, however deep or shut, and the failure is the build's", {
  timeout: timeoutMs,
}, async () => {
  for (const left of [DEEP, SHUT]) {
    const failed = ensure(building(`${left}raise SystemExit("gave up on purpose")\n`));
    await expect(failed).rejects.toMatchObject({
      code: "dependency_failed",
      message: expect.stringContaining("gave up on purpose"),
    });
  }
  expect(await layerNames()).toEqual([]);
});

test("what a build leaves in a layer belongs to the host's root to the last folder, with no set-id bit", {
  timeout: timeoutMs,
}, async () => {
  const files = 'open("set_id", "w").close()\nos.chmod("set_id", 0o6777)\nos.symlink("/etc/shadow", "link")\n';
  const wheel = `import zipfile
def build_wheel(folder, settings=None, metadata=None):
    with zipfile.ZipFile(folder + "/p-1-py3-none-any.whl", "w") as file:
        file.writestr("p-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: p\\nVersion: 1\\n")
        file.writestr("p-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        file.writestr("p-1.dist-info/RECORD", "")
    return "p-1-py3-none-any.whl"
`;
  const guarded = `if not os.path.exists("set_id"):\n${[files, SHUT, DEEP].join("").replace(/^(?=.)/gm, "    ")}${wheel}`;
  const shadow = await lstat("/etc/shadow");
  const layer = await ensure(building(guarded));
  const venv = layer?.venv ?? "";
  const foreign = ["(", "-not", "-uid", "0", "-o", "-perm", "/7022", "-not", "-type", "l", ")"];
  const { stdout } = await run("find", [venv, ...foreign]);
  expect(stdout).toBe("");
  expect((await lstat(join(venv, "shut"))).mode & 0o777).toBe(0o755);
  expect((await lstat(join(venv, "set_id"))).mode & 0o7777).toBe(0o755);
  expect((await lstat("/etc/shadow")).mode).toBe(shadow.mode);
  await run("rm", ["-rf", join(dataDir, "layers", layer?.key ?? "none")]);
});

test("a package of the archive alone is built with what the index has to build it", {
  timeout: timeoutMs,
}, async () => {
  const setup = 'from setuptools import setup\nsetup(name="p", version="1", py_modules=["p"])\n';
  const layer = await ensure([
    ...requirements("./package\n"),
    { name: "package/setup.py", content: setup },
    { name: "package/p.py" },
  ]);
  const { stdout } = await run("find", [layer?.venv ?? "", "-name", "p.py"]);
  expect(stdout).toMatch(/site-packages\/p\.py\n$/);
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
