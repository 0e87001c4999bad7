import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readDependencies } from "../../src/layers/dependencies.ts";
import { findPackageIndex } from "../../src/layers/index.ts";
import { layerKey } from "../../src/layers/key.ts";
import { findUv } from "../../src/layers/uv.ts";

let tree: string;

beforeEach(async () => {
  tree = await mkdtemp(join(tmpdir(), "sandpool-test-"));
});

afterEach(() => rm(tree, { recursive: true, force: true }));

async function write(files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(tree, name)), { recursive: true });
    await writeFile(join(tree, name), text);
  }
}

const script =
  "#!/usr/bin/env python3\n# /// script\n# requires-python = '>=3.10'\n# dependencies = [\n#   \"numpy>=2\", # fast\n#   'gymnasium[classic-control]',\n# ]\n# ///\nprint(1)\n";
const pyproject =
  '[project]\nname = "x"\ndependencies = ["torch==2; python_version > \'3\'"]\n[tool.x]\ndependencies = ["no"]\n';

test("requirements.txt comes before pyproject.toml, and that before the script's own metadata", async () => {
  await write({ "env.py": script });
  expect(await readDependencies(tree, "env.py")).toMatchObject({
    kind: "script",
    file: "env.py",
    names: ["numpy", "gymnasium"],
  });
  await write({ "pyproject.toml": pyproject });
  expect(await readDependencies(tree, "env.py")).toMatchObject({ kind: "pyproject", names: ["torch"] });
  await write({ "requirements.txt": "# all\nnumpy>=2  # fast\nscipy[x]==1; python_version>'3'\n" });
  expect(await readDependencies(tree, "env.py")).toMatchObject({
    kind: "requirements",
    names: ["numpy", "scipy"],
    local: false,
  });
});

test("files that ask for nothing ask for no layer", async () => {
  await write({
    "env.py": "# dependencies = ['x']\n",
    "requirements.txt": "# nothing\n\n",
    "pyproject.toml": "[project]\nname='x'\ndependencies = []\n",
  });
  expect(await readDependencies(tree, "env.py")).toBeNull();
});

test("included requirement files belong to the text, wherever they lie inside", async () => {
  await write({
    "requirements.txt": "-r more/base.txt\n",
    "more/base.txt": "numpy\n-r ../requirements.txt\n-r ../../outside.txt\n",
  });
  expect(await readDependencies(tree, "env.py")).toMatchObject({
    names: ["numpy"],
    text: expect.stringContaining("numpy"),
  });
});

test.each(["-e .", "./wheels/x.whl", "x @ file:///env/x", "--editable ."])(
  "%s makes the archive part of the key",
  async (line) => {
    await write({ "requirements.txt": `${line}\n` });
    const dependencies = await readDependencies(tree, "env.py");
    expect(dependencies?.local).toBe(true);
    if (dependencies === null) return;
    const inputs = {
      dependencies,
      pythonPath: "/usr/bin/python3",
      uvVersion: "uv 1",
      indexes: ["https://index.invalid/simple"],
      isolated: true,
    };
    expect(await layerKey({ ...inputs, archiveSha256: "a" })).not.toBe(
      await layerKey({ ...inputs, archiveSha256: "b" }),
    );
  },
);

test("the key changes with what decides the installation and with nothing else", async () => {
  await write({ "requirements.txt": "numpy\n" });
  const dependencies = await readDependencies(tree, "env.py");
  if (dependencies === null) throw new Error("no dependencies were found");
  const inputs = {
    dependencies,
    archiveSha256: "a",
    pythonPath: "/usr/bin/python3",
    uvVersion: "uv 1",
    indexes: ["https://index.invalid/simple"],
    isolated: true,
  };
  const key = await layerKey(inputs);
  expect(await layerKey({ ...inputs, archiveSha256: "b" })).toBe(key);
  for (const change of [
    { uvVersion: "uv 2" },
    { pythonPath: "/bin/sh" },
    { isolated: false },
    { indexes: [] },
    { dependencies: { ...dependencies, text: "scipy\n" } },
  ]) {
    expect(await layerKey({ ...inputs, ...change })).not.toBe(key);
  }
});

test("an interpreter that does not exist is named", async () => {
  await write({ "requirements.txt": "numpy\n" });
  const dependencies = await readDependencies(tree, "env.py");
  if (dependencies === null) throw new Error("no dependencies were found");
  const inputs = {
    dependencies,
    archiveSha256: "a",
    pythonPath: "/no/python",
    uvVersion: "uv 1",
    indexes: [],
    isolated: true,
  };
  await expect(layerKey(inputs)).rejects.toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("/no/python"),
  });
});

test("the operator's index comes first, else uv's own default is used", async () => {
  const uv = await findUv();
  const chosen = await findPackageIndex(uv.path, {
    PIP_INDEX_URL: "https://mirror.invalid/simple",
    UV_INDEX: "extra=https://extra.invalid/simple",
  });
  expect(chosen).toEqual({
    default: "https://mirror.invalid/simple",
    extra: ["https://extra.invalid/simple"],
    configured: true,
  });
  const builtIn = await findPackageIndex(uv.path, {});
  expect(builtIn).toMatchObject({ configured: false, default: expect.stringMatching(/^https:\/\/\S+\/simple$/) });
});
