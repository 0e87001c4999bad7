import { decodeBatch } from "@sandpool/protocol";
import { expect, test } from "vitest";
import { columnsOf } from "../../src/pools/batches/columns.ts";
import { joinResults } from "../../src/pools/batches/join.ts";
import { mergeResults } from "../../src/pools/batches/merge.ts";
import type { ShardResult } from "../../src/pools/batches/result.ts";
import { bytesOf, parseBinary, parseJson } from "../fixtures/pool.ts";

const layout = { kind: "array" as const, fields: [{ dtype: "<f8", shape: [2] }], tree: { field: 0 } };
const columns = columnsOf("step", "binary", layout);
const doubles = (...values: number[]): Buffer => Buffer.from(Float64Array.from(values).buffer);

function result(rows: number, base: number, members: Partial<ShardResult> = {}): ShardResult {
  const observations = Array.from({ length: rows * 2 }, (_, index) => base + index);
  const rewards = Array.from({ length: rows }, (_, index) => base * 10 + index);
  const fragments = [
    doubles(...observations),
    doubles(...rewards),
    Buffer.alloc(rows, 1),
    Buffer.alloc(rows),
    Buffer.alloc(0),
  ];
  return {
    rows,
    fragments,
    failed: [],
    stragglers: [],
    warnings: [],
    slowestMicroseconds: base,
    slowestRow: base,
    ...members,
  };
}

test("messages of equal lengths differ only in what the batches differ in", () => {
  for (const [seq, base] of [
    [1, 5],
    [2, 700],
    [0xffffffff, 3],
  ] as const) {
    const { map, columns: read } = parseBinary(
      joinResults(seq, "binary", columns, [result(2, base), result(1, base + 50)], performance.now()),
    );
    expect(map).toMatchObject({
      seq,
      rows: 3,
      failed: [],
      timing: { slowest_ms: (base + 50) / 1000, slowest_row: base + 50, stragglers: [] },
    });
    expect(read).toEqual({
      obs: [base, base + 1, base + 2, base + 3, base + 50, base + 51],
      rewards: [base * 10, base * 10 + 1, base * 10 + 500],
      terminated: [1, 1, 1],
      truncated: [0, 0, 0],
      infos: {},
    });
  }
});

test("failures, stragglers and warnings stand in the map and in the summary", () => {
  const infos = Buffer.from('"1":{"sandpool_error":{"kind":"timeout","op":"step"}}');
  const failing = result(1, 1, { failed: [1], stragglers: [1], warnings: ["slow host"] });
  const fragments = [...failing.fragments.slice(0, -1), infos];
  const batch = joinResults(4, "binary", columns, [result(1, 0), { ...failing, fragments }], performance.now());
  expect(parseBinary(batch).map).toMatchObject({ failed: [1], warnings: ["slow host"], timing: { stragglers: [1] } });
  expect(parseBinary(batch).columns.infos).toEqual({ 1: { sandpool_error: { kind: "timeout", op: "step" } } });
  expect(batch.summary).toEqual({ rows: 2, stragglers: 1, failures: { timeout: 1 } });
});

test("a reply over the size of one buffer is the same message in pieces", () => {
  const wide = columnsOf("step", "binary", { ...layout, fields: [{ dtype: "<f8", shape: [10_000] }] });
  const big = result(1, 1);
  const fragments = [doubles(...Array.from({ length: 10_000 }, (_, index) => index)), ...big.fragments.slice(1)];
  const batch = joinResults(
    1,
    "binary",
    wide,
    [
      { ...big, fragments },
      { ...big, fragments },
    ],
    performance.now(),
  );
  expect(batch.chunks.length).toBeGreaterThan(1);
  expect(batch.chunks).toContain(fragments[0]);
  expect((parseBinary(batch).columns.obs as number[]).slice(9_999, 10_002)).toEqual([9_999, 0, 1]);
});

test("JSON fragments are joined in index order around shards without rows", () => {
  const json = columnsOf("reset", "json", layout);
  const part = (rows: number, ...fragments: string[]): ShardResult => ({
    ...result(0, 0),
    rows,
    fragments: fragments.map((text) => Buffer.from(text)),
  });
  const batch = joinResults(
    null,
    "json",
    json,
    [part(1, "[1.0]", "{}"), part(0, "", ""), part(2, "2,3", "{},{}")],
    performance.now(),
  );
  expect(batch.chunks.join("")).toContain('{"obs":[[1.0],2,3],"infos":[{},{},{}],"failed":[]');
  expect(parseJson(batch).seq).toBeUndefined();
});

test("two answers for one shard's rows are merged in index order, in either encoding", () => {
  const even = { rows: [0, 2], result: result(2, 10) };
  const odd = { rows: [1], result: result(1, 90) };
  const { columns: read } = parseBinary(joinResults(1, "binary", columns, [mergeResults([even, odd], columns)], 0));
  expect(read).toMatchObject({ obs: [10, 11, 90, 91, 12, 13], rewards: [100, 900, 101] });
});

test("a large message has its large parts uncopied and the small ones between them in one chunk", () => {
  const wide = columnsOf("step", "binary", {
    kind: "array",
    fields: [{ dtype: "|u1", shape: [40_000] }],
    tree: { field: 0 },
  });
  const part = (fill: number): ShardResult => {
    const { fragments, ...rest } = result(1, fill);
    return { ...rest, fragments: [Buffer.alloc(40_000, fill), ...fragments.slice(1)] };
  };
  for (const seq of [1, 2, null]) {
    const parts = [part(7), part(9)];
    const batch = joinResults(seq, "binary", wide, parts, performance.now());
    expect(batch.chunks.map((chunk) => parts.findIndex(({ fragments }) => fragments[0] === chunk))).toEqual([
      -1, 0, 1, -1,
    ]);
    const { map, fields } = decodeBatch(bytesOf(batch));
    expect(map).toMatchObject({ rows: 2, failed: [], ...(seq === null ? {} : { seq }) });
    expect(fields.map(({ name, data }) => [name, data.length])).toEqual([
      ["obs", 80_000],
      ["rewards", 16],
      ["terminated", 2],
      ["truncated", 2],
      ["infos", 2],
    ]);
    expect(fields[0]?.data.equals(Buffer.concat([Buffer.alloc(40_000, 7), Buffer.alloc(40_000, 9)]))).toBe(true);
    expect(fields[1]?.data.readDoubleLE(8)).toBe(90);
  }
});
