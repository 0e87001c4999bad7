import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type Header, pack } from "tar-stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { packTree } from "../../src/machines/files/packTree.ts";
import { unpackTree } from "../../src/machines/files/unpackTree.ts";

let folder: string;
let target: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpool-tree-"));
  target = join(folder, "target");
  writeFileSync(join(folder, "canary"), "alive");
});
afterEach(() => {
  expect(readFileSync(join(folder, "canary"), "utf8")).toBe("alive");
  rmSync(folder, { recursive: true });
});

function tarOf(...entries: (Partial<Header> & { name: string; content?: string })[]): Readable {
  const tar = pack();
  for (const { content = "", ...header } of entries) tar.entry(header, content);
  tar.finalize();
  return Readable.from(tar);
}

describe("a tar from a machine", () => {
  test.each([
    ["a path with ..", { name: "../canary", content: "dead" }],
    ["a path with .. inside", { name: "a/../../canary", content: "dead" }],
    ["a hard link to outside", { name: "a", type: "link", linkname: "../canary" }],
    ["a hard link to what did not come before", { name: "a", type: "link", linkname: "b" }],
  ] as const)("with %s is refused", async (_name, entry) => {
    await expect(unpackTree(tarOf(entry), target)).rejects.toMatchObject({ code: "protocol_violation" });
    expect(readdirSync(folder).sort()).toEqual(["canary", "target"]);
  });

  test("with an absolute path stays in the folder", async () => {
    await unpackTree(tarOf({ name: join(folder, "canary"), content: "dead" }), target);
    expect(readFileSync(join(target, folder, "canary"), "utf8")).toBe("dead");
  });

  test.each([
    ["absolute", "l", "/etc"],
    ["upwards", "l", ".."],
    ["upwards from below", "a/l", "../.."],
    ["through another link", "a/b/l", "../../a/../.."],
    ["to a name and back up", "l", "a/../../canary"],
  ])("leaves out a link that leads out: %s", async (_name, name, linkname) => {
    const report = await unpackTree(tarOf({ name, type: "symlink", linkname }, { name: "kept", content: "x" }), target);
    expect(report).toMatchObject({
      entries: 1,
      bytes: 1,
      skipped: [{ path: name, reason: expect.stringContaining(linkname) }],
    });
  });

  test("is not written through a link that it brought itself, nor through one that was there", async () => {
    mkdirSync(target);
    symlinkSync("..", join(target, "old"));
    const own = tarOf({ name: "l", type: "symlink", linkname: "." }, { name: "l/x", content: "inside" });
    // The link comes after the folder of its name was made, and cannot take its place.
    await expect(unpackTree(own, target)).rejects.toThrow();
    await expect(unpackTree(tarOf({ name: "old/canary", content: "dead" }), target)).rejects.toMatchObject({
      code: "protocol_violation",
    });
  });

  test("replaces a link that stands in a file's place instead of writing to where it leads", async () => {
    mkdirSync(target);
    symlinkSync("../canary", join(target, "f"));
    await unpackTree(tarOf({ name: "f", content: "new" }), target);
    expect(readFileSync(join(target, "f"), "utf8")).toBe("new");
  });

  test("keeps no set-id bit and makes no device", async () => {
    const entries = [
      { name: "f", mode: 0o6755, content: "x" },
      { name: "d", type: "character-device" },
    ] as const;
    const report = await unpackTree(tarOf(...entries), target);
    expect(statSync(join(target, "f")).mode & 0o7777).toBe(0o755);
    expect(report).toEqual({ entries: 1, bytes: 1, skipped: [{ path: "d", reason: "it is a character-device" }] });
  });

  test("that breaks off fails, and leaves no half file", async () => {
    const chunks: Buffer[] = [];
    for await (const chunk of tarOf({ name: "f", content: "x".repeat(10_000) })) chunks.push(chunk as Buffer);
    const half = Readable.from([Buffer.concat(chunks).subarray(0, 5000)]);
    await expect(unpackTree(half, target)).rejects.toMatchObject({ code: "connection_failed" });
    expect(readdirSync(target)).toEqual([]);
  });
});

test("a folder goes through a tar and back with its modes, links, long and strange names", async () => {
  const source = join(folder, "source");
  const long = "n".repeat(180);
  mkdirSync(join(source, long, "sub"), { recursive: true });
  mkdirSync(join(source, "empty"));
  writeFileSync(join(source, long, "sub", "ü\n'\""), "content", { mode: 0o750 });
  writeFileSync(join(source, "nothing"), "", { mode: 0o600 });
  symlinkSync(`../${long}/sub`, join(source, "empty", "link"));
  const report = await unpackTree(packTree(source), target);
  expect(report).toEqual({ entries: 6, bytes: 7, skipped: [] });
  expect(readdirSync(target, { recursive: true }).sort()).toEqual(readdirSync(source, { recursive: true }).sort());
  const file = join(target, long, "sub", "ü\n'\"");
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["content", 0o750]);
  expect(readlinkSync(join(target, "empty", "link"))).toBe(`../${long}/sub`);
});
