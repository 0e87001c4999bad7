import {
  createReadStream,
  createWriteStream,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createZstdCompress } from "node:zlib";
import type { SandpoolError } from "@sandpool/protocol";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { seal, wayOut } from "../machines/archives.ts";
import { failureOf, type Item, makeLayer, makeSave, makeStore, type StoreBench } from "./support.ts";

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

  test("class 21: a gibibyte in a tenth of a megabyte is refused, with the limits every server has", async () => {
    const head = (await makeLayer([{ name: "zeros" }])).subarray(0, 512);
    head.write(`${(2 ** 30).toString(8).padStart(11, "0")}\0`, 124);
    seal(head);
    const packed = mkdtempSync(join(tmpdir(), "sandpool-bomb-"));
    const bomb = join(packed, "bomb.tar.zst");
    const zeros = Buffer.alloc(2 ** 26);
    const zstd = createZstdCompress();
    const tar = Readable.from([head, ...Array.from({ length: 16 }, () => zeros), Buffer.alloc(1024)]);
    await pipeline(tar, zstd, createWriteStream(bomb));
    const store = await makeStore();
    try {
      expect(statSync(bomb).size).toBeLessThan(100_000);
      const before = process.memoryUsage().rss;
      let peak = before;
      const timer = setInterval(() => {
        peak = Math.max(peak, process.memoryUsage().rss);
      }, 20);
      const error = await failureOf(store.import("bomb", createReadStream(bomb)));
      clearInterval(timer);
      expect(error).toMatchObject({ code: "image_failed", message: expect.stringMatching(/over 200 times/) });
      expect((peak - before) / 2 ** 20).toBeLessThan(200);
      expect([store.incoming(), store.kept()]).toEqual([[], []]);
    } finally {
      await store.remove();
      rmSync(packed, { recursive: true });
    }
  });

  test("class 22: whatever bytes an image has, it is taken or refused, and nothing else is touched", async () => {
    const items: Item[] = wayOut(canary).flatMap(([, one]) => one);
    const whole = await makeLayer([{ name: "etc/x", content: "x" }, ...items]);
    const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), fc.boolean(), async (changes, isSealed) => {
        const tar = Buffer.from(whole);
        for (const [at, byte] of changes) {
          tar[at] = byte;
          if (isSealed) seal(tar.subarray(at - (at % 512), at - (at % 512) + 512));
        }
        const outcome = await bench.import("fuzz", tar).catch((error: unknown) => error);
        if (outcome instanceof Error) expect(outcome).toMatchObject({ code: "image_failed" });
        expect(readdirSync(canary)).toEqual(["canary"]);
        expect(bench.incoming()).toEqual([]);
      }),
      { numRuns: 60, interruptAfterTimeLimit: 5_000, markInterruptAsFailure: false },
    );
  });
});
