import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const program = join(import.meta.dirname, "../../../bin/sandpool");

function version(cache: string): string {
  return execFileSync(program, ["version"], { encoding: "utf8", env: { ...process.env, XDG_CACHE_HOME: cache } });
}

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "sandpool-cache-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("compiled code is kept in a folder that only this account may write", () => {
  const cache = temporary();
  const first = version(cache);
  expect(readdirSync(join(cache, "sandpool/compiled"))).toHaveLength(1);
  expect(version(cache)).toBe(first);
});

test("a folder that others may write, or a link, keeps nothing, and the command works", () => {
  const open = temporary();
  mkdirSync(join(open, "sandpool/compiled"), { recursive: true });
  chmodSync(join(open, "sandpool/compiled"), 0o777);
  expect(version(open)).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(readdirSync(join(open, "sandpool/compiled"))).toEqual([]);

  const linked = temporary();
  const elsewhere = temporary();
  mkdirSync(join(linked, "sandpool"));
  symlinkSync(elsewhere, join(linked, "sandpool/compiled"));
  expect(version(linked)).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(readdirSync(elsewhere)).toEqual([]);
});

test("a cache that cannot be made is no failure", () => {
  const cache = join(temporary(), "file");
  execFileSync("touch", [cache]);
  expect(version(cache)).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(existsSync(join(cache, "sandpool"))).toBe(false);
});
