import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ERROR_CODES } from "@sandpool/protocol";
import { expect, test } from "vitest";
import { REPOSITORY } from "./support/server.ts";

test.each(["sdk", "cli"])("every code that the %s makes itself stands in the documentation", (name) => {
  const folder = join(REPOSITORY, "packages", name, "src");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  const made = files.flatMap((file) => {
    const source = readFileSync(join(folder, file), "utf8");
    return [...source.matchAll(/(?:(?:Error|Failure|super)\(\s*|\bcode[:=]? ?=? ?)"([a-z_]+)"/g)].map(
      ([, code]) => code,
    );
  });
  expect(made.length).toBeGreaterThan(1);
  expect(made.filter((code) => !Object.hasOwn(ERROR_CODES, code as string))).toEqual([]);
});
