import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { zstdCompressSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type ArchiveLimits, defaultArchiveLimits } from "../../src/archives/limits.ts";
import { type LocalArchiveStore, openArchiveStore } from "../../src/archives/store.ts";
import { makeTar, putEntries, sha256, type TarEntry } from "../fixtures/archive.ts";

const owner = "owner-1";
let folder: string;
let store: LocalArchiveStore;

async function open(limits: Partial<ArchiveLimits> = {}): Promise<LocalArchiveStore> {
  return openArchiveStore(folder, { ...defaultArchiveLimits, ...limits });
}

async function leftovers(): Promise<string[]> {
  return [...(await readdir(join(folder, "incoming"))), ...(await readdir(join(folder, "trees")))];
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpool-test-"));
  store = await open();
});

afterEach(() => rm(folder, { recursive: true, force: true }));

test("files, folders and inner links are unpacked with modes 0644 and 0755 and nothing else", async () => {
  const hash = await putEntries(store, owner, [
    { name: "bin/run", content: "#!/bin/sh\n", mode: 0o4777 },
    { name: "bin", type: "directory", mode: 0o777 },
    { name: "data.txt", content: "x", mode: 0o600 },
    { name: "latest", type: "symlink", linkname: "bin/../data.txt" },
    { name: "bin/later", type: "symlink", linkname: "not-there-yet" },
  ]);
  const tree = await store.tree(owner, hash);
  const modes = await Promise.all(
    ["", "bin", "bin/run", "data.txt"].map(async (name) => (await lstat(join(tree, name))).mode & 0o7777),
  );
  expect(modes).toEqual([0o755, 0o755, 0o755, 0o644]);
  expect(await readlink(join(tree, "latest"))).toBe("bin/../data.txt");
  expect(await readFile(join(tree, "latest"), "utf8")).toBe("x");
});

test("an archive is visible to its owner only, and another owner uploads it again", async () => {
  const hash = await putEntries(store, owner, [{ name: "env.py" }]);
  expect([await store.has(owner, hash), await store.has("owner-2", hash)]).toEqual([true, false]);
  await expect(store.tree("owner-2", hash)).rejects.toMatchObject({ code: "archive_not_found" });
  expect(await putEntries(store, "owner-2", [{ name: "env.py" }])).toBe(hash);
  expect(await store.tree("owner-2", hash)).toBe(await store.tree(owner, hash));
});

test("two uploads of the same archive at once both succeed", async () => {
  const hashes = await Promise.all([1, 2, 3].map(() => putEntries(store, owner, [{ name: "env.py", content: "x" }])));
  expect(await readdir(join(folder, "trees"))).toEqual([hashes[0]]);
  expect(await readdir(join(folder, "incoming"))).toEqual([]);
});

test("bytes that do not have the announced hash are refused and removed", async () => {
  const packed = zstdCompressSync(await makeTar([{ name: "env.py" }]));
  const other = sha256(Buffer.from("other"));
  await expect(store.put(owner, other, Readable.from([packed]))).rejects.toMatchObject({
    code: "archive_hash_mismatch",
    details: { received: sha256(packed), expected: other },
  });
  expect(await leftovers()).toEqual([]);
});

test("an upload that breaks off leaves nothing", async () => {
  const broken = Readable.from(
    (async function* () {
      yield Buffer.from("abc");
      throw new Error("connection lost");
    })(),
  );
  await expect(store.put(owner, sha256(Buffer.from("abc")), broken)).rejects.toThrow("connection lost");
  expect(await leftovers()).toEqual([]);
});

test("an upload over the limit is refused while it runs", async () => {
  store = await open({ packedBytes: 10 });
  const body = Buffer.alloc(11);
  await expect(store.put(owner, sha256(body), Readable.from([body]))).rejects.toMatchObject({
    code: "archive_too_large",
  });
  expect(await leftovers()).toEqual([]);
});

test("an upload is refused while the disk has less free space than the mark", async () => {
  store = await open({ freeDiskBytes: Number.MAX_SAFE_INTEGER });
  await expect(putEntries(store, owner, [{ name: "env.py" }])).rejects.toMatchObject({ code: "disk_full" });
  expect(await leftovers()).toEqual([]);
});

const crafted: [string, TarEntry[], RegExp][] = [
  ["a path with ..", [{ name: "a/../../evil" }], /the part "\.\."/],
  ["an absolute path", [{ name: "/etc/evil" }], /absolute/],
  ["a path with a dot part", [{ name: "a/./b" }], /the part "\."/],
  ["an empty part", [{ name: "a//b" }], /the part ""/],
  ["a newline in a name", [{ name: "a\nb" }], /control characters/],
  ["an escape sequence in a name", [{ name: "a\u001b[2Jb" }], /control characters/],
  ["a name over 255 bytes", [{ name: "x".repeat(256) }], /over 255 bytes/],
  ["a path over 1024 bytes", [{ name: `${"d".repeat(200)}/`.repeat(6) }], /at most 1024/],
  ["too many folders", [{ name: `${"d/".repeat(33)}f` }], /33 folders deep/],
  ["an absolute link", [{ name: "l", type: "symlink", linkname: "/etc/passwd" }], /must be relative/],
  ["an empty link", [{ name: "l", type: "symlink", linkname: "" }], /must be relative/],
  ["a link that leaves by ..", [{ name: "d/l", type: "symlink", linkname: "../../etc" }], /outside the archive/],
  [
    "a link that leaves through another link",
    [
      { name: "deep/er", type: "directory" },
      { name: "far", type: "symlink", linkname: "deep/er" },
      { name: "l", type: "symlink", linkname: "far/../../../x" },
    ],
    /outside the archive/,
  ],
  [
    "a link that leaves through a link to the root",
    [
      { name: "a/root", type: "symlink", linkname: ".." },
      { name: "l", type: "symlink", linkname: "a/root/../x" },
    ],
    /outside the archive/,
  ],
  ["a link to itself", [{ name: "l", type: "symlink", linkname: "l" }], /more than 40/],
  [
    "a file through a link",
    [{ name: "l", type: "symlink", linkname: "." }, { name: "l/file" }],
    /lies below "l", which is a link/,
  ],
  [
    "a file where a link stands",
    [
      { name: "l", type: "symlink", linkname: "target" },
      { name: "l", content: "x" },
    ],
    /stands in it twice/,
  ],
  ["a file below a file", [{ name: "f" }, { name: "f/g" }], /lies below "f", which is a file/],
  ["a path twice", [{ name: "f" }, { name: "./f" }], /stands in it twice/],
  [
    "a folder twice",
    [
      { name: "d/", type: "directory" },
      { name: "d", type: "directory" },
    ],
    /stands in it twice/,
  ],
  ["a hard link", [{ name: "f" }, { name: "h", type: "link", linkname: "f" }], /type "link"/],
  ["a character device", [{ name: "dev", type: "character-device" }], /type "character-device"/],
  ["a block device", [{ name: "dev", type: "block-device" }], /type "block-device"/],
  ["a FIFO", [{ name: "p", type: "fifo" }], /type "fifo"/],
];

test.each(crafted)("%s refuses the archive and leaves nothing", async (_, entries, message) => {
  await expect(putEntries(store, owner, entries)).rejects.toMatchObject({
    code: "archive_invalid",
    message: expect.stringMatching(message),
  });
  expect(await leftovers()).toEqual([]);
});

test.each<[string, Partial<ArchiveLimits>, TarEntry[], RegExp]>([
  ["bytes", { unpackedBytes: 5000 }, [{ name: "big", content: Buffer.alloc(6000, "ab") }], /over 5000 bytes/],
  ["entries", { entries: 2 }, [{ name: "a" }, { name: "b" }, { name: "c" }], /over 2 entries/],
  [
    "the ratio",
    { ratio: 10, ratioFreeBytes: 1000 },
    [{ name: "zeros", content: Buffer.alloc(10_000_000) }],
    /over 10 times/,
  ],
])("a bomb by %s is stopped", async (_, limits, entries, message) => {
  store = await open(limits);
  await expect(putEntries(store, owner, entries)).rejects.toMatchObject({
    code: "archive_invalid",
    message: expect.stringMatching(message),
  });
  expect(await leftovers()).toEqual([]);
});

test.each([
  ["no zstd", Buffer.from("hello world")],
  ["a torn zstd stream", zstdCompressSync(Buffer.alloc(100_000, "abcdefg")).subarray(0, 20)],
  ["no tar", zstdCompressSync(Buffer.alloc(2000, "x"))],
  ["an empty body", Buffer.alloc(0)],
])("%s is refused as unreadable", async (_, bytes) => {
  await expect(store.put(owner, sha256(bytes), Readable.from([bytes]))).rejects.toMatchObject({
    code: "archive_invalid",
  });
  expect(await leftovers()).toEqual([]);
});

test("a tar that ends inside a file is refused", async () => {
  const tar = await makeTar([{ name: "f", content: Buffer.alloc(5000, "x") }]);
  const bytes = zstdCompressSync(tar.subarray(0, 2048));
  await expect(store.put(owner, sha256(bytes), Readable.from([bytes]))).rejects.toMatchObject({
    code: "archive_invalid",
  });
});

test("what an earlier server left half received is removed at the next start", async () => {
  await mkdir(join(folder, "incoming", "half"));
  await open();
  expect(await readdir(join(folder, "incoming"))).toEqual([]);
});
