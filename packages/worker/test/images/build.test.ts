import { execFileSync } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findAgent } from "../../src/agent/find.ts";
import { createDriver } from "../../src/drivers/drivers.ts";
import { hostFolders } from "../../src/host/folders.ts";
import { findTool } from "../../src/host/tools.ts";
import { readRecipes, recipesFolder } from "../../src/images/recipes/recipe.ts";
import { leftovers } from "../fixtures/leftovers.ts";
import { failureOf, makeStore, type StoreBench } from "./support.ts";

const builds = process.geteuid?.() === 0 && findTool("mmdebstrap") !== null;
if (!builds) console.log("skipped: images are built by root with mmdebstrap");

const smallest = { description: "the smallest", release: "bookworm" };

describe.skipIf(!builds)("builds", { timeout: 300_000 }, () => {
  let bench: StoreBench;
  let recipes: string;

  beforeEach(async () => {
    bench = await makeStore();
    recipes = join(bench.dataDir, "recipes");
    mkdirSync(recipes);
    const driver = createDriver("namespace", { dataDir: bench.dataDir, agentPath: findAgent() });
    await bench.reopen({ driver, recipes });
  });
  afterEach(async () => {
    expect(bench.incoming()).toEqual([]);
    expect(leftovers(bench.dataDir)).toEqual([]);
    rmSync(hostFolders(bench.dataDir).own, { recursive: true, force: true });
    await bench.remove();
  });

  const write = (name: string, recipe: unknown): void =>
    writeFileSync(join(recipes, `${name}.json`), JSON.stringify(recipe));
  const build = (name: string, signal = new AbortController().signal) =>
    bench.store.build(name, { signal, onProgress: (one) => void bench.progress.push(one) });

  test("a recipe becomes an image with visible steps, owned by root, without set-id bits; built again it is there at once", async () => {
    write("small", { ...smallest, links: { "/opt/here/python": "/usr/bin/env" }, environment: { A: "1" } });
    const image = await build("small");
    expect(image).toMatchObject({
      name: "small",
      kind: "recipe",
      source: expect.stringMatching(/^recipe [0-9a-f]{64}$/),
    });
    const lines = bench.progress.filter(({ phase }) => phase === "install").map(({ text }) => text);
    expect(lines).toEqual(expect.arrayContaining([expect.stringContaining("I: extracting archives")]));
    const root = await bench.root("small");
    expect(readFileSync(`${root}/etc/debian_version`, "utf8")).toMatch(/^12/);
    expect(lstatSync(`${root}/opt/here/python`).isSymbolicLink()).toBe(true);
    expect([lstatSync(`${root}/etc/passwd`).uid, lstatSync(`${root}/etc/shadow`).gid]).toEqual([0, 42]);
    expect(execFileSync("find", [root, "-perm", "/6000"], { encoding: "utf8" })).toBe("");
    for (const name of ["dev", "proc", "sys", "run", "tmp"]) expect(readdirSync(`${root}/${name}`)).toEqual([]);
    expect((await bench.store.resolve("small")).environ).toEqual({ A: "1" });
    bench.progress.length = 0;
    expect(await build("small")).toEqual(image);
    expect(bench.progress).toEqual([]);
  });

  test("a build that is given up ends with its sandbox", async () => {
    write("small", smallest);
    const abort = new AbortController();
    const given = bench.store.build("small", {
      signal: abort.signal,
      onProgress: ({ phase }) => {
        if (phase === "install") abort.abort(new Error("the caller went away"));
      },
    });
    await expect(given).rejects.toThrow("the caller went away");
    expect(bench.kept()).toEqual([]);
  });

  test("class 59: a build reaches the mirror and nothing else; what failed is told in the builder's own words", async () => {
    const mirror = createServer((request, response) => {
      response.writeHead(302, { location: `http://elsewhere.invalid${request.url}` }).end();
    });
    await new Promise<void>((resolve) => mirror.listen(0, "127.0.0.1", resolve));
    const before = process.env.SANDPOOL_DEBIAN_MIRROR;
    process.env.SANDPOOL_DEBIAN_MIRROR = `http://localhost:${(mirror.address() as AddressInfo).port}/debian`;
    try {
      write("small", smallest);
      const error = await failureOf(build("small"));
      expect(error.code).toBe("image_failed");
      expect(error.details.refused).toEqual([expect.stringContaining("elsewhere.invalid:80")]);
      expect(error.details.output).toContain("403");
      expect(bench.kept()).toEqual([]);
    } finally {
      if (before === undefined) delete process.env.SANDPOOL_DEBIAN_MIRROR;
      else process.env.SANDPOOL_DEBIAN_MIRROR = before;
      mirror.close();
    }
  });
});

test("class 60: every Python package of the recipes is pinned with hashes, and odd members are refused", async () => {
  const recipes = await readRecipes(recipesFolder);
  expect(recipes.map(({ name }) => name)).toEqual(["node", "python", "pytorch"]);
  for (const line of recipes.flatMap(({ python }) => python))
    expect(line).toMatch(/^\S+==\S+( --hash=sha256:\S{64})+$/);
});

test.each([
  ["a package that is an option", { ...smallest, packages: ["--help"] }],
  ["a Python package without a hash", { ...smallest, python: ["numpy==2.0"] }],
  ["a release that is a path", { ...smallest, release: "../x" }],
  ["an unknown member", { ...smallest, script: "rm -rf /" }],
  ["a link with a line end", { ...smallest, links: { "/a\nb": "/c" } }],
])("class 58: a recipe with %s is refused", async (_name, recipe) => {
  const bench = await makeStore();
  try {
    writeFileSync(join(bench.dataDir, "odd.json"), JSON.stringify(recipe));
    await expect(readRecipes(bench.dataDir)).rejects.toThrow(/The recipe odd is wrong/);
  } finally {
    await bench.remove();
  }
});
