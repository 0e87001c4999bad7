import { execFileSync } from "node:child_process";
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { failureOf, folder, type Item, link, makeLayer, makeSave, makeStore, type StoreBench } from "./support.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.log("skipped: images need root");

describe.skipIf(!isRoot)("layers", { timeout: 60_000 }, () => {
  let bench: StoreBench;
  let outside = "";

  beforeAll(async () => {
    bench = await makeStore();
    outside = mkdtempSync(join(tmpdir(), "sandpool-canary-"));
    writeFileSync(join(outside, "secret"), "canary");
  });
  afterAll(async () => {
    expect(bench.incoming()).toEqual([]);
    expect(readdirSync(outside)).toEqual(["secret"]);
    expect(readFileSync(join(outside, "secret"), "utf8")).toBe("canary");
    await bench.remove();
    rmSync(outside, { recursive: true });
  });

  async function rootOf(...layers: readonly Item[][]): Promise<string> {
    const tars = await Promise.all(layers.map(makeLayer));
    const { id } = await bench.import("one", await makeSave(tars));
    return await bench.root(id ?? "");
  }

  test("class 10: owners and modes are kept; set-id bits and file capabilities are not", async () => {
    const root = await rootOf([
      { name: "bin/su", content: "x", mode: 0o6755, uid: 0, gid: 42, pax: { "SCHILY.xattr.security.capability": "x" } },
      { ...folder("home/user", 0o2700), uid: 1000, gid: 1001 },
      { name: "far", uid: 2_000_000, gid: 7 },
    ]);
    const su = lstatSync(`${root}/bin/su`);
    expect([su.mode & 0o7777, su.uid, su.gid]).toEqual([0o755, 0, 42]);
    const home = lstatSync(`${root}/home/user`);
    expect([home.mode & 0o7777, home.uid, home.gid]).toEqual([0o700, 1000, 1001]);
    // A machine has 65,536 ids; an owner beyond them is nobody.
    expect(lstatSync(`${root}/far`).uid).toBe(65_534);
    expect(execFileSync("find", [root, "-perm", "/6000"], { encoding: "utf8" })).toBe("");
  });

  test("what is covered in every machine is empty, and /tmp is there, whatever the image had", async () => {
    const root = await rootOf([
      { name: "dev/console", type: "character-device", mode: 0o666 },
      link("dev/null", "/proc/sys/kernel/core_pattern"),
      link("proc", "/etc"),
      { name: "proc/x", content: "hidden" },
      link("sys", outside),
      { name: "run/secrets/key", content: "x" },
      link("sandpool", outside),
      { name: "sandpool/agent", content: "x" },
      link("tmp", outside),
      link("etc/resolv.conf", "../run/resolvconf/resolv.conf"),
    ]);
    for (const name of ["dev", "proc", "sys", "run", "tmp"]) {
      expect({ name, folder: lstatSync(`${root}/${name}`).isDirectory() }).toEqual({ name, folder: true });
      expect(readdirSync(`${root}/${name}`)).toEqual([]);
    }
    expect(lstatSync(`${root}/tmp`).mode & 0o7777).toBe(0o1777);
    expect(readdirSync(root)).not.toContain("sandpool");
    expect(lstatSync(`${root}/etc/resolv.conf`).isFile()).toBe(true);
  });

  test("class 20: a link is followed from the image's own root, so nothing is written or read outside", async () => {
    const root = await rootOf(
      [link("out", outside), link("up", "../../../../../../.."), { name: "out/secret", content: "inside" }],
      [
        { name: "up/etc/made", content: "inside" },
        link("out/again", `${outside}/secret`),
        { name: "plain", content: "a" },
      ],
    );
    expect(readFileSync(`${root}${outside}/secret`, "utf8")).toBe("inside");
    expect(readFileSync(`${root}/etc/made`, "utf8")).toBe("inside");
    expect(readlinkSync(`${root}${outside}/again`)).toBe(`${outside}/secret`);
  });

  test.each<[string, Item[], RegExp]>([
    ["a path with ..", [{ name: "a/../../x" }], /".."/],
    ["a hard link to a file outside", [{ name: "x", type: "link", linkname: "/etc/passwd" }], /no file before it/],
    ["a hard link upwards", [{ name: "x", type: "link", linkname: "../../etc/passwd" }], /".."/],
    ["a hard link through a link", [link("a", "/"), { name: "b", type: "link", linkname: "a/etc/shadow" }], /no file/],
    ["a file below a file", [{ name: "a" }, { name: "a/b" }], /which is a file/],
    ["links in a ring", [link("a", "b"), link("b", "a"), { name: "a/x" }], /more than 40 links/],
    ["a name that is too long", [{ name: "x".repeat(256) }], /over 255 bytes/],
    ["a path that is too deep", [{ name: `${"d/".repeat(200)}x` }], /128 folders deep/],
  ])("class 20: %s refuses the image", async (_name, items, message) => {
    const error = await failureOf(bench.import("refused", await makeLayer(items)));
    expect(error.code).toBe("image_failed");
    expect(error.message).toMatch(message);
  });

  test("class 20: names that differ in case or in the form of a letter are different files", async () => {
    const names = ["Name", "name", "n\u00e9", "ne\u0301"];
    const root = await rootOf(names.map((name) => ({ name, content: name })));
    for (const name of names) expect(readFileSync(`${root}/${name}`, "utf8")).toBe(name);
  });

  test.each(["character-device", "block-device", "fifo"] as const)("class 23: a %s refuses the image", async (type) => {
    const error = await failureOf(bench.import("refused", await makeLayer([{ name: "etc/odd", type }])));
    expect(error).toMatchObject({ code: "image_failed", details: { entry: "etc/odd" } });
  });

  test.each<[string, (header: Buffer) => void, RegExp]>([
    ["an old sparse file", (header) => header.write("S", 156), /type "unknown"/],
    ["a size below zero", (header) => header.fill(0xff, 124, 136), /readable tar/],
    ["a size beyond everything", (header) => header.fill(0x7f, 125, 136).fill(0x80, 124, 125), /readable tar|unpacks/],
    ["a wrong sum", (header) => header.write("x", 0), /readable tar/],
    ["an unknown kind", (header) => header.write("Z", 156), /type "unknown"/],
  ])("class 22: %s refuses the image", async (name, change, message) => {
    const tar = await makeLayer([{ name: "file", content: "some" }]);
    const header = tar.subarray(0, 512);
    change(header);
    if (name !== "a wrong sum") setSum(header);
    const error = await failureOf(bench.import("refused", tar));
    expect(error.code).toBe("image_failed");
    expect(error.message).toMatch(message);
  });

  test("class 22: a sparse file in pax form refuses the image, and so does a tar that was cut", async () => {
    const sparse = await makeLayer([{ name: "file", content: "some", pax: { "GNU.sparse.major": "1" } }]);
    expect((await failureOf(bench.import("refused", sparse))).message).toContain("sparse");
    const whole = await makeLayer([{ name: "file", content: "x".repeat(10_000) }]);
    expect((await failureOf(bench.import("refused", whole.subarray(0, 3000)))).message).toContain("readable tar");
  });

  test("whiteouts remove what lower layers brought, and an opaque folder all of it, wherever they stand in their layer", async () => {
    const lower: Item[] = [
      { name: "etc/gone", content: "1" },
      { name: "etc/stays", content: "1" },
      { name: "a/old", content: "1" },
      { name: "b/old", content: "1" },
      { name: "b/deep/old", content: "1" },
      { name: "tree/x/y", content: "1" },
    ];
    const upper: Item[] = [
      { name: "etc/.wh.gone" },
      { name: "a/.wh..wh..opq" },
      { name: "a/new", content: "2" },
      { name: "b/deep/new", content: "2" },
      { name: "b/.wh..wh..opq" },
      { name: ".wh.tree" },
      { name: ".wh..wh.plnk" },
    ];
    const root = await rootOf(lower, upper);
    expect(readdirSync(`${root}/etc`)).toEqual(["stays"]);
    expect(readdirSync(`${root}/a`)).toEqual(["new"]);
    expect(readdirSync(`${root}/b`)).toEqual(["deep"]);
    expect(readdirSync(`${root}/b/deep`)).toEqual(["new"]);
    expect(readdirSync(root)).not.toContain("tree");
    expect(execFileSync("find", [root, "-name", ".wh.*"], { encoding: "utf8" })).toBe("");
  });

  test("a plain root file system has no whiteouts: such names are names", async () => {
    const { id } = await bench.import("plain", await makeLayer([{ name: "etc/.wh.x", content: "kept" }]));
    expect(readFileSync(`${await bench.root(id ?? "")}/etc/.wh.x`, "utf8")).toBe("kept");
  });

  test("an upper layer replaces files by folders and back, and never writes through a hard link", async () => {
    const root = await rootOf(
      [
        { name: "a", content: "one" },
        { name: "b", type: "link", linkname: "a" },
        { name: "c/d", content: "1" },
        { name: "e" },
      ],
      [
        { name: "a", content: "two" },
        { name: "c", content: "file" },
      ],
      [
        { name: "e", type: "directory", mode: 0o755 },
        { name: "e/f", content: "3" },
      ],
    );
    expect(["a", "b", "c", "e/f"].map((name) => readFileSync(`${root}/${name}`, "utf8"))).toEqual([
      "two",
      "one",
      "file",
      "3",
    ]);
  });

  test("a layer may be plain, gzip or zstd: the image is the same", async () => {
    const tar = await makeLayer([{ name: "etc/x", content: "same" }]);
    const ids = [];
    for (const packed of [tar, gzipSync(tar), zstdCompressSync(tar)]) ids.push((await bench.import("same", packed)).id);
    expect(new Set(ids).size).toBe(1);
  });

  test("class 21: bytes, entries, layers and the ratio are limited, and nothing is left of what passes a limit", async () => {
    const limits = {
      unpackedBytes: 8 * 2 ** 20,
      entries: 50,
      ratio: 10,
      ratioFreeBytes: 2 ** 20,
      packedBytes: 2 ** 22,
    };
    const small = await makeStore({ limits });
    try {
      const zeros = gzipSync(await makeLayer([{ name: "zeros", content: Buffer.alloc(6 * 2 ** 20) }]));
      expect((await failureOf(small.import("bomb", zeros))).message).toMatch(/over 10 times/);
      const many = await makeLayer(Array.from({ length: 60 }, (_, index) => ({ name: `f${index}` })));
      expect((await failureOf(small.import("bomb", many))).message).toMatch(/over 50 entries/);
      const long = await makeLayer([{ name: "x", content: Buffer.alloc(5 * 2 ** 20) }]);
      expect((await failureOf(small.import("bomb", long))).message).toMatch(/over 4MiB/);
      const layers = await Promise.all(
        [1, 2, 3].map((n) => makeLayer([{ name: "x", content: Buffer.alloc(3 * 2 ** 20, n) }])),
      );
      const save = gzipSync(await makeSave(layers));
      expect((await failureOf(small.import("bomb", save))).message).toMatch(/over 10 times|over 8MiB/);
      expect(small.incoming()).toEqual([]);
      expect(small.kept()).toEqual([]);
    } finally {
      await small.remove();
    }
  });

  test("below the low-water mark nothing is begun, and the figures are told", async () => {
    const full = await makeStore({ limits: { freeDiskBytes: 2 ** 60 } });
    try {
      const error = await failureOf(full.import("any", await makeLayer([{ name: "x" }])));
      expect(error).toMatchObject({ code: "disk_full", details: { needed_bytes: 2 ** 60 } });
    } finally {
      await full.remove();
    }
  });
});

function setSum(header: Buffer): void {
  header.fill(0x20, 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
}
