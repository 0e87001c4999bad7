import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SandpoolError } from "@sandpool/protocol";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Item, makeLayer, makeSave, makeStore, type StoreBench } from "./support.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.log("skipped: images need root");

const names = ["a", "b", "etc", "dev", "tmp", "..", ".", "", ".wh.a", ".wh..wh..opq", ".wh...", "canary", "n\u0301"];

describe.skipIf(!isRoot)("hostile layers", { timeout: 60_000 }, () => {
  let bench: StoreBench;
  let canary = "";

  beforeAll(async () => {
    bench = await makeStore({ limits: { depth: 12 } });
    canary = mkdtempSync(join(tmpdir(), "sandpool-canary-"));
    writeFileSync(join(canary, "canary"), "canary");
  });
  afterAll(async () => {
    await bench.remove();
    rmSync(canary, { recursive: true });
  });

  test("class 19, 20: whatever a layer holds, it is unpacked below its root or refused, and nothing else is touched", async () => {
    const part = fc.constantFrom(...names);
    const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
    const target = fc.oneof(path, fc.constant(canary), fc.constant(`../../../../../..${canary}`), fc.constant("/"));
    const item: fc.Arbitrary<Item> = fc.oneof(
      path.map((name): Item => ({ name: name || "x", content: "planted" })),
      path.map((name): Item => ({ name: name || "x", type: "directory", mode: 0o777 })),
      fc.tuple(path, target).map(([name, to]): Item => ({ name: name || "x", type: "symlink", linkname: to || "x" })),
      fc.tuple(path, target).map(([name, to]): Item => ({ name: name || "x", type: "link", linkname: to || "x" })),
    );
    const layers = fc.array(fc.array(item, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(layers, async (items) => {
        const tars = await Promise.all(items.map(makeLayer));
        const outcome = await bench.import("any", await makeSave(tars)).then(
          () => null,
          (error: unknown) => error,
        );
        if (outcome !== null) expect(outcome).toMatchObject({ code: "image_failed" } satisfies Partial<SandpoolError>);
        expect(readdirSync(canary)).toEqual(["canary"]);
        expect(readFileSync(join(canary, "canary"), "utf8")).toBe("canary");
        expect(bench.incoming()).toEqual([]);
      }),
      { numRuns: 150, interruptAfterTimeLimit: 15_000, markInterruptAsFailure: false },
    );
  });
});
