import { readFileSync } from "node:fs";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parseReference } from "../../src/images/reference.ts";
import { Registry } from "./registry.ts";
import { failureOf, makeLayer, makeStore, type StoreBench } from "./support.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.log("skipped: images need root");
const own = `linux/${process.arch === "x64" ? "amd64" : process.arch}`;
const other = own === "linux/arm64" ? "linux/amd64" : "linux/arm64";

describe.skipIf(!isRoot)("pulls", { timeout: 60_000 }, () => {
  let bench: StoreBench;
  let registry: Registry;
  let tars: Buffer[] = [];

  beforeAll(async () => {
    tars = [
      await makeLayer([{ name: "etc/x", content: "one" }]),
      await makeLayer([
        { name: "etc/x", content: "two" },
        { name: "etc/y", content: "y" },
      ]),
    ];
  });
  beforeEach(async () => {
    registry = new Registry();
    await registry.listen();
    bench = await makeStore();
  });
  afterEach(async () => {
    expect(bench.incoming()).toEqual([]);
    await bench.remove();
    await registry.close();
  });

  test("class 60: a tag is resolved to a digest, which is told and kept; the image says what it said of its programs", async () => {
    const config = { Env: ["A=b=c", "PATH=/bin"], User: "1000:50", WorkingDir: "/w", Cmd: ["run"], Entrypoint: ["/e"] };
    const digest = registry.push("1", tars, config);
    const name = `${registry.host}/team/app`;
    const image = await bench.pull(`${name}:1`);
    expect(image).toMatchObject({ name: `${name}:1`, kind: "pulled", source: `${name}@${digest}` });
    expect(bench.progress.find(({ text }) => text !== undefined)?.text).toBe(`${name}:1 is ${name}@${digest}`);
    const found = await bench.store.resolve(`${name}:1`);
    expect(found).toMatchObject({ environ: { A: "b=c", PATH: "/bin" }, user: "1000:50", cwd: "/w" });
    expect(found.id).toBe(image.id);
    expect((await bench.store.resolve(`${name}@${digest}`)).id).toBe(image.id);
    expect(readFileSync(`${await bench.root(`${name}:1`)}/etc/x`, "utf8")).toBe("two");
    registry.push("1", [tars[0] as Buffer]);
    expect((await bench.store.resolve(`${name}:1`)).id).toBe(image.id);
  });

  test("the same content under another name is not downloaded again, and has the same id", async () => {
    registry.push("1", tars);
    const first = await bench.pull(`${registry.host}/team/app:1`);
    registry.asked.length = 0;
    registry.manifests.set("2", registry.manifests.get("1") as { type: string; body: Buffer });
    const second = await bench.pull(`${registry.host}/team/app:2`);
    expect(second.id).toBe(first.id);
    expect(registry.asked.filter(({ path }) => path.includes("/blobs/"))).toHaveLength(1);
  });

  test("of an index this host's image is taken; one that lacks it says what there is", async () => {
    const mine = registry.push("mine", tars);
    const theirs = registry.push("theirs", [tars[0] as Buffer]);
    const digest = registry.pushIndex("both", { [own]: mine, [other]: theirs });
    const image = await bench.pull(`${registry.host}/team/app:both`);
    expect(image.source).toBe(`${registry.host}/team/app@${digest}`);
    expect(readFileSync(`${await bench.root(image.name)}/etc/y`, "utf8")).toBe("y");
    registry.pushIndex("none", { [other]: theirs });
    const error = await failureOf(bench.pull(`${registry.host}/team/app:none`));
    expect(error).toMatchObject({ code: "image_failed", details: { offered: [other], wanted: own } });
  });

  test("class 60: a changed manifest, configuration, layer or diff id refuses the image", async () => {
    const name = `${registry.host}/team/app`;
    const digest = registry.push("1", tars);
    const kept = registry.manifests.get(digest) as { type: string; body: Buffer };
    registry.manifests.set(digest, { ...kept, body: Buffer.concat([kept.body, Buffer.from(" ")]) });
    const manifest = await failureOf(bench.pull(`${name}@${digest}`));
    expect(manifest.details).toMatchObject({ expected: digest });
    registry.manifests.set(digest, kept);
    for (const [part, bytes] of [...registry.blobs]) {
      const changed = Buffer.from(bytes);
      changed[bytes.length - 1] = (changed[bytes.length - 1] ?? 0) ^ 1;
      registry.blobs.set(part, changed);
      const error = await failureOf(bench.pull(`${name}:1`));
      expect({ code: error.code, expected: error.details.expected }).toEqual({ code: "image_failed", expected: part });
      registry.blobs.set(part, bytes);
    }
    const [first = Buffer.alloc(0)] = tars;
    const wrong = registry.push("wrong", [first]);
    const swapped = JSON.parse(String(registry.manifests.get(wrong)?.body)) as { config: unknown };
    const right = JSON.parse(String(registry.manifests.get(digest)?.body)) as { config: unknown; layers: unknown[] };
    registry.put("wrong", kept.type, { ...right, config: swapped.config, layers: [right.layers[1]] });
    expect((await failureOf(bench.pull(`${name}:wrong`))).message).toMatch(/Layer 1 of the image unpacks to/);
    expect(bench.kept()).toEqual([]);
    expect((await bench.pull(`${name}:1`)).id).toMatch(/^sha256:/);
  });

  test("a registry that asks for a token gives one, and it is shown to no other server", async () => {
    const blobs = new Registry();
    await blobs.listen();
    try {
      registry.push("1", tars);
      for (const [digest, bytes] of registry.blobs) blobs.blobs.set(digest, bytes);
      registry.token = "letmein";
      registry.blobOrigin = `http://${blobs.host}`;
      await bench.pull(`${registry.host}/team/app:1`);
      expect(registry.asked.some(({ authorization }) => authorization === "Bearer letmein")).toBe(true);
      const token = registry.asked.find(({ path }) => path.startsWith("/token"));
      expect(decodeURIComponent(token?.path ?? "")).toContain("scope=repository:team/app:pull");
      expect(blobs.asked.length).toBe(3);
      expect(blobs.asked.every(({ authorization }) => authorization === null)).toBe(true);
    } finally {
      await blobs.close();
    }
  });

  test("a download that breaks off is tried again, three times at most", async () => {
    registry.push("1", tars);
    registry.breaks = 1;
    await bench.pull(`${registry.host}/team/app:1`).catch(() => undefined);
    registry.breaks = 0;
    await bench.pull(`${registry.host}/team/app:1`);
    expect(bench.kept()).toHaveLength(1);
  });

  test("class 59: private addresses are refused, as a host, as an answer and as a redirect, unless they are listed", async () => {
    registry.push("1", tars);
    const port = registry.host.split(":")[1];
    for (const host of ["127.0.0.1", "[::1]", "10.1.2.3", "169.254.169.254", "192.168.1.1", "[::ffff:7f00:1]"]) {
      const error = await failureOf(bench.pull(`${host}:${port}/team/app:1`));
      expect({ host, code: error.code, said: error.message }).toMatchObject({
        code: "image_failed",
        said: expect.stringMatching(/private address/),
      });
    }
    await bench.reopen({ privateHosts: [] });
    expect((await failureOf(bench.pull(`${registry.host}/team/app:1`))).message).toMatch(/private address/);
    await bench.reopen({ privateHosts: ["localhost"] });
    registry.blobOrigin = `http://127.0.0.1:${port}`;
    expect((await failureOf(bench.pull(`${registry.host}/team/app:1`))).message).toMatch(/private address 127.0.0.1/);
    registry.blobOrigin = null;
    await bench.pull(`${registry.host}/team/app:1`);
  });

  test("two pulls of one image are one download; the one that is given up does not end the other's", async () => {
    registry.push("1", tars);
    const abort = new AbortController();
    const name = `${registry.host}/team/app:1`;
    const given = bench.store.pull(name, { signal: abort.signal, onProgress: () => abort.abort(new Error("gone")) });
    const other = bench.store.pull(name, { signal: new AbortController().signal });
    await expect(given).rejects.toThrow("gone");
    expect((await other).id).toMatch(/^sha256:/);
    expect(registry.asked.filter(({ path }) => path.includes("/blobs/"))).toHaveLength(3);
  });

  test("what is no image, or not there, is said with what to do", async () => {
    const artifact = { schemaVersion: 2, mediaType: "application/vnd.oci.artifact" };
    registry.put("odd", "application/vnd.oci.image.manifest.v1+json", artifact);
    expect(await failureOf(bench.pull(`${registry.host}/team/app:odd`))).toMatchObject({ code: "image_failed" });
    const missing = await failureOf(bench.pull(`${registry.host}/team/app:none`));
    expect(missing.message).toContain("has no such image");
    expect(missing.hint).not.toBeNull();
    const name = `${registry.host}/team/app:1`;
    await registry.close();
    expect((await failureOf(bench.pull(name))).message).toContain("could not be reached");
    registry = new Registry();
    await registry.listen();
  });
});

test.each([
  ["python:3.12", ["docker.io", "library/python", "3.12", null]],
  ["team/app", ["docker.io", "team/app", "latest", null]],
  ["localhost:5000/a", ["localhost:5000", "a", "latest", null]],
  [`ghcr.io/a/b@sha256:${"0".repeat(64)}`, ["ghcr.io", "a/b", null, `sha256:${"0".repeat(64)}`]],
  [`ghcr.io/a/b:1@sha256:${"0".repeat(64)}`, ["ghcr.io", "a/b", "1", `sha256:${"0".repeat(64)}`]],
])("class 58: the reference %s is read as container tools read it", (text, [registry, repository, tag, digest]) => {
  expect(parseReference(text as string)).toEqual({ registry, repository, tag, digest });
});

test.each([
  "",
  "-x",
  "a b",
  "../x",
  "a/../b",
  "A/b",
  "x@sha256:1",
  "x:",
  "http://a.b/c",
  "a.b/c?d",
  "a.b/c#d",
  "user@a.b/c",
  "a.b:port/c",
  "[::ffff:127.0.0.1]/a",
])("class 58: %j names no image", (text) => {
  expect(() => parseReference(text)).toThrow(/names no image/);
});
