import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  digestOf,
  failureOf,
  folder,
  type Item,
  json,
  link,
  makeConfig,
  makeLayer,
  makeSave,
  makeStore,
  type StoreBench,
} from "./support.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.log("skipped: images need root");

describe.skipIf(!isRoot)("the store of images", { timeout: 60_000 }, () => {
  let bench: StoreBench;

  beforeEach(async () => {
    bench = await makeStore();
  });
  afterEach(async () => {
    expect(bench.incoming()).toEqual([]);
    await bench.remove();
  });

  test("host is there without being made, and each recipe is listed before it is built", async () => {
    const images = await bench.store.list();
    expect(images[0]).toMatchObject({ id: "host", name: "host", kind: "host" });
    expect(images.slice(1).map(({ id, name, kind }) => [id, name, kind])).toEqual(
      ["node", "python", "pytorch"].map((name) => [null, name, "recipe"]),
    );
    expect(await bench.store.resolve("host")).toMatchObject({ id: "host", image: { kind: "host" } });
  });

  test("an unknown name says how the image is made", async () => {
    const hints = await Promise.all(
      ["python", "ghcr.io/a/b:1", "nothing"].map(async (name) => {
        const error = await failureOf(bench.store.resolve(name));
        return [error.code, error.hint];
      }),
    );
    expect(hints).toEqual([
      ["image_not_found", "Build it once: sandpool image build python"],
      ["image_not_found", "Pull it once: sandpool image pull ghcr.io/a/b:1"],
      ["image_not_found", expect.stringContaining("node, python, pytorch")],
    ]);
  });

  test("one content is one image, whatever it came in: a layout, a save, or twice", async () => {
    const tars = [await makeLayer([{ name: "etc/x", content: "1" }]), await makeLayer([folder("srv")])];
    const config = { Env: ["A=1"], Cmd: ["x"] };
    const first = await bench.import("save", await makeSave(tars, config));
    const second = await bench.import("layout", await makeLayout(tars, config));
    expect(second.id).toBe(first.id);
    expect(bench.kept()).toEqual([first.id?.slice("sha256:".length)]);
    const third = await bench.import("other", await makeSave(tars, { ...config, Env: ["A=2"] }));
    expect(third.id).not.toBe(first.id);
    expect(bench.progress.filter(({ text }) => text !== undefined).map(({ text }) => text)).toEqual([
      "an image as docker saves it",
      "an OCI layout",
      "an image as docker saves it",
    ]);
  });

  test("a saved image whose layer is not what its configuration says is refused", async () => {
    const tars = [await makeLayer([{ name: "a" }])];
    const other = await makeLayer([{ name: "b" }]);
    const manifest = json([{ Config: "c", Layers: ["l"] }]);
    const items = [
      { name: "c", content: makeConfig(tars) },
      { name: "l", content: other },
      { name: "manifest.json", content: manifest },
    ];
    expect((await failureOf(bench.import("x", await makeLayer(items)))).message).toContain("Layer 1 of the image");
    const lacking = await makeLayer(items.filter(({ name }) => name !== "l"));
    expect((await failureOf(bench.import("x", lacking))).message).toContain('lacks "l"');
    const outside = await makeLayer([...items.slice(0, 1), link("l", "/etc/passwd"), ...items.slice(2)]);
    expect((await failureOf(bench.import("x", outside))).message).toContain("names no file before it");
    expect(bench.kept()).toEqual([]);
  });

  test.each([
    ["an image for another architecture", { architecture: "mips" }, /made for linux\/mips/],
    ["a variable without a name", { config: { Env: ["=x"] } }, /config.Env/],
    ["fewer diff ids than layers", { rootfs: { diff_ids: [] } }, /diff ids/],
    ["members of another type", { config: { Cmd: "text" } }, /config.Cmd/],
  ])("%s is refused", async (_name, change, message) => {
    const layer = await makeLayer([{ name: "a" }]);
    const document = json({ ...JSON.parse(String(makeConfig([layer]))), ...change });
    const save = await makeLayer([
      { name: "c", content: document },
      { name: "l", content: layer },
      { name: "manifest.json", content: json([{ Config: "c", Layers: ["l"] }]) },
    ]);
    const error = await failureOf(bench.import("x", save));
    expect(error.code).toBe("image_failed");
    expect(error.message).toMatch(message);
  });

  test("a name that is given to another image leaves the first under its id, so that its machines can start again", async () => {
    const first = await bench.import("base", await tarOf("1"));
    const second = await bench.import("base", await tarOf("2"));
    expect((await bench.store.resolve("base")).id).toBe(second.id);
    expect((await bench.store.resolve(first.id ?? "")).id).toBe(first.id);
    expect((await bench.store.list()).map(({ name }) => name)).toContain(first.id);
    await bench.import("base", await tarOf("1"));
    const names = (await bench.store.list()).filter(({ kind }) => kind === "imported").map(({ name }) => name);
    expect(names.sort()).toEqual(["base", second.id].sort());
  });

  test("an image that machines use is not removed, the details name them; without any it is gone from the disk", async () => {
    const { id } = await bench.import("base", await tarOf("1"));
    await bench.import("again", await tarOf("1"));
    await bench.store.remove("again", ["box"]);
    const error = await failureOf(bench.store.remove("base", ["box"]));
    expect(error).toMatchObject({ code: "image_in_use", details: { machines: ["box"] } });
    expect(existsSync(await bench.root("base"))).toBe(true);
    await bench.store.remove(id ?? "", []);
    expect(bench.kept()).toEqual([]);
    expect((await failureOf(bench.store.remove("base", []))).code).toBe("image_not_found");
    expect((await failureOf(bench.store.remove("host", []))).code).toBe("invalid_request");
  });

  test.each(["host", "python", "Upper", "a/b", "../x", "", "x".repeat(200), "sha256:1"])(
    "class 58: an image cannot be imported as %j",
    async (name) => {
      expect((await failureOf(bench.import(name, await tarOf("1")))).code).toBe("invalid_request");
    },
  );

  test("row 30: a source that fails or is given up leaves nothing, and the name is free", async () => {
    const tar = await tarOf("1");
    const broken = Readable.from(
      (async function* () {
        yield tar.subarray(0, 700);
        throw new Error("the line went dead");
      })(),
    );
    await expect(bench.import("base", broken)).rejects.toThrow("the line went dead");
    const abort = new AbortController();
    const endless = new Readable({ read: () => undefined });
    endless.push(tar.subarray(0, 100));
    const given = bench.store.import("base", endless, { signal: abort.signal });
    setImmediate(() => abort.abort(new Error("the caller went away")));
    await expect(given).rejects.toThrow("the caller went away");
    expect(bench.incoming()).toEqual([]);
    await bench.import("base", tar);
  });

  test("what a crash left half made is removed when the store is opened, and what is whole stays", async () => {
    const { id } = await bench.import("base", await tarOf("1"));
    mkdirSync(join(bench.dataDir, "images", "incoming", "left", "image"), { recursive: true });
    mkdirSync(join(bench.dataDir, "images", "f".repeat(64), "rootfs"), { recursive: true });
    const nameless = await bench.import("gone", await tarOf("2"));
    for (const file of readdirSync(join(bench.dataDir, "images", "names"))) {
      const path = join(bench.dataDir, "images", "names", file);
      if (readFileSync(path, "utf8").includes('"gone"')) rmSync(path);
    }
    await bench.reopen();
    expect((await bench.store.resolve(nameless.id ?? "")).name).toBe(nameless.id);
    await bench.store.remove(nameless.id ?? "", []);
    expect(bench.incoming()).toEqual([]);
    expect(bench.kept()).toEqual([id?.slice("sha256:".length)]);
    expect((await bench.store.resolve("base")).id).toBe(id);
  });

  test("an image belongs to the host's root alone, and its figures are those of the disk", async () => {
    const image = await bench.import("base", await tarOf("x".repeat(100_000)));
    const kept = join(bench.dataDir, "images", image.id?.slice("sha256:".length) ?? "");
    expect(statSync(kept).mode & 0o777).toBe(0o700);
    expect(image.bytes).toBeGreaterThan(100_000);
    expect(image.bytes).toBeLessThan(200_000);
    expect(readdirSync(kept).sort()).toEqual(["manifest.json", "rootfs"]);
    expect(JSON.parse(readFileSync(join(kept, "manifest.json"), "utf8"))).toMatchObject({ version: 1, id: image.id });
  });

  test("an image whose /usr or /etc is a link runs under gvisor only, and says why", async () => {
    for (const name of ["usr", "etc"]) {
      const items: Item[] = [{ name: "real/x", content: name }, link(name, "real")];
      await bench.import("odd", await makeLayer(items));
      const { drivers } = await bench.store.resolve("odd");
      expect(drivers.namespace).toEqual({ allowed: false, reason: expect.stringContaining(`/${name} of this image`) });
      expect(drivers.gvisor.allowed).toBe(true);
    }
  });
});

async function tarOf(content: string): Promise<Buffer> {
  return await makeLayer([{ name: "etc/x", content }]);
}

async function makeLayout(tars: readonly Buffer[], config: Record<string, unknown>): Promise<Buffer> {
  const files = new Map<string, Buffer>();
  const put = (content: Buffer): { digest: string; size: number } => {
    const digest = digestOf(content);
    files.set(`blobs/${digest.replace(":", "/")}`, content);
    return { digest, size: content.length };
  };
  const manifest = put(json({ schemaVersion: 2, config: put(makeConfig(tars, config)), layers: tars.map(put) }));
  return await makeLayer([
    { name: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) },
    { name: "index.json", content: json({ schemaVersion: 2, manifests: [manifest] }) },
    ...[...files].map(([name, content]) => ({ name, content })),
  ]);
}
