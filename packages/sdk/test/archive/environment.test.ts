import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { packEnvironment } from "../../src/archive/environment.ts";

const HELPER = readdirSync(join(import.meta.dirname, "../../../../python/src/sandpool/env"))
  .filter((name) => name.endsWith(".py"))
  .sort();

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpool-archive-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (path: string, text = ""): void => writeFileSync(join(folder, path), text);

/** Names, modes, owners and times as the tar program reads them. */
const listTar = (bytes: Uint8Array): string[] =>
  execFileSync("tar", ["--list", "--verbose", "--numeric-owner", "--full-time", "--utc"], {
    input: zstdDecompressSync(bytes),
    encoding: "utf8",
  })
    .trim()
    .split("\n")
    .map((line) => line.replace(/\s+/g, " "));

describe("packing an environment", () => {
  test("entries are sorted, without owner and time, with the helper, without what is left out", async () => {
    write("env.py", "print()\n");
    mkdirSync(join(folder, "data"));
    write("data/b.txt", "b");
    symlinkSync("b.txt", join(folder, "data", "a-link"));
    write("run.sh");
    chmodSync(join(folder, "run.sh"), 0o755);
    write("old.pyc");
    for (const left of [".git", "__pycache__", ".venv", "node_modules"]) {
      mkdirSync(join(folder, left));
      write(`${left}/x`);
    }
    const archive = await packEnvironment(folder);
    const lines = listTar(archive.bytes).map((line) => line.replace(/ 0\/0 \d+ 1970-01-01 00:00:00 /, " "));
    expect(lines).toEqual([
      "drwxr-xr-x data/",
      "lrwxr-xr-x data/a-link -> b.txt",
      "-rw-r--r-- data/b.txt",
      "-rw-r--r-- env.py",
      "-rwxr-xr-x run.sh",
      "drwxr-xr-x sandpool/",
      "-rw-r--r-- sandpool/__init__.py",
      "drwxr-xr-x sandpool/env/",
      ...HELPER.map((name) => `-rw-r--r-- sandpool/env/${name}`),
    ]);
    expect(archive.entry).toBe("env.py");
  });

  test("the same content packs to the same bytes, whatever the times", async () => {
    write("env.py", "x = 1\n");
    const first = await packEnvironment(folder);
    utimesSync(join(folder, "env.py"), 1, 1);
    const second = await packEnvironment(folder);
    expect(second.sha256).toBe(first.sha256);
    write("env.py", "x = 2\n");
    expect((await packEnvironment(folder)).sha256).not.toBe(first.sha256);
  });

  test("a folder without env.py runs an executable env, a file is its own program", async () => {
    write("env", "#!/bin/sh\n");
    await expect(packEnvironment(folder)).rejects.toThrow(/its file env is not executable/);
    chmodSync(join(folder, "env"), 0o755);
    expect((await packEnvironment(folder)).entry).toBe("env");
    write("other.py");
    expect((await packEnvironment(join(folder, "other.py"))).entry).toBe("other.py");
  });

  test.each(["sandpool/env.py", "sandpool/env/__init__.py"])("the folder's own helper %s is kept", async (own) => {
    write("env.py");
    mkdirSync(join(folder, dirname(own)), { recursive: true });
    write(own, "own = True\n");
    write("sandpool/__init__.py");
    const names = listTar((await packEnvironment(folder)).bytes).map((line) => line.split(" ").at(-1) ?? "");
    const files = names.filter((name) => name.startsWith("sandpool/") && !name.endsWith("/"));
    expect(files).toEqual(["sandpool/__init__.py", own]);
  });

  test.each([
    ["/etc/passwd", "an absolute link"],
    ["../outside", "a link upwards"],
    ["inner/../../outside", "a link through a folder"],
  ])("%s, %s, is refused by name", async (target) => {
    write("env.py");
    symlinkSync(target, join(folder, "link"));
    await expect(packEnvironment(folder)).rejects.toThrow(/link.*outside the environment's folder/);
  });

  test("a link through a link that leads out is refused", async () => {
    mkdirSync(join(folder, "deep"));
    write("env.py");
    symlinkSync(".", join(folder, "deep", "here"));
    symlinkSync("deep/here/../../..", join(folder, "out"));
    await expect(packEnvironment(folder)).rejects.toThrow(/outside the environment's folder/);
  });

  test("a FIFO and a missing folder are refused by name", async () => {
    await expect(packEnvironment(join(folder, "nowhere"))).rejects.toThrow(/nowhere cannot be read: ENOENT/);
    write("env.py");
    execFileSync("mkfifo", [join(folder, "pipe")]);
    await expect(packEnvironment(folder)).rejects.toThrow(/pipe is a device, socket or FIFO/);
  });
});
