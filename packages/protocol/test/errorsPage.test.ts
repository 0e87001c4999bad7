import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ERROR_CODES } from "../src/index.ts";

const page = readFileSync(new URL("../../../docs/errors.md", import.meta.url), "utf8");

test("docs/errors.md lists every code with its status and meaning, and no other", () => {
  const rows = [...page.matchAll(/^\| `(\w+)` \| (\d+|-) \| (.+) \|$/gm)].map(([, code, status, meaning]) => [
    code,
    status,
    meaning,
  ]);
  const expected = Object.entries(ERROR_CODES).map(([code, { status, meaning }]) => [
    code,
    String(status ?? "-"),
    meaning,
  ]);
  expect(rows).toEqual(expected);
});
