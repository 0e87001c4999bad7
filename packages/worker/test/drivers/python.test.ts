import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pythonMounts } from "../../src/drivers/python.ts";

describe("what is mounted for a Python", () => {
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(`${tmpdir()}/sandpool-python-`);
    for (const name of ["python-3.12.1", "venv", "plain"]) mkdirSync(`${folder}/${name}/bin`, { recursive: true });
    mkdirSync(`${folder}/python-3.12.1/lib/python3.12`, { recursive: true });
    writeFileSync(`${folder}/python-3.12.1/lib/python3.12/os.py`, "");
    writeFileSync(`${folder}/python-3.12.1/bin/python3.12`, "");
    symlinkSync("python-3.12.1", `${folder}/python-3.12`);
    symlinkSync(`${folder}/python-3.12/bin/python3.12`, `${folder}/venv/bin/python`);
    writeFileSync(`${folder}/venv/pyvenv.cfg`, `home = ${folder}/python-3.12/bin\nversion = 3.12.1\n`);
    symlinkSync("/usr/bin/python3", `${folder}/plain/bin/python`);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const targets = (path: string): string[] => pythonMounts(path).map(({ target }) => target.replace(folder, ""));

  test("nothing for the host's own", () => {
    expect(targets("/usr/bin/python3")).toEqual([]);
  });

  test("the prefix of an installation", () => {
    expect(targets(`${folder}/python-3.12.1/bin/python3.12`)).toEqual(["/python-3.12.1"]);
  });

  test("a virtual environment, its home under both of its names, all read-only", () => {
    expect(targets(`${folder}/venv/bin/python`)).toEqual(["/venv", "/python-3.12", "/python-3.12.1"]);
    expect(pythonMounts(`${folder}/venv/bin/python`).every(({ readOnly }) => readOnly)).toBe(true);
  });

  test.each(["/plain/bin/python", "/absent/bin/python"])("%s is refused: its folder is no Python", (path) => {
    expect(() => pythonMounts(folder + path)).toThrow(/give the absolute path|no lib\/python3|does not exist/);
  });

  test("a relative path is refused", () => {
    expect(() => pythonMounts("python3")).toThrow(/not absolute/);
  });
});
