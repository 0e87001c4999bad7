import { describe, expect, test } from "vitest";
import { makeObservations } from "../../src/pool/observations.ts";
import { NdArray } from "../../src/values/ndarray.ts";

const layout = { kind: "array" as const, fields: [{ dtype: "<f4", shape: [2] }], tree: { field: 0 } };
const rows = (...data: number[]): { kind: "array"; fields: NdArray[] } => ({
  kind: "array",
  fields: [new NdArray("<f4", [data.length / 2, 2], Float32Array.from(data))],
});

describe("the last observation of every row", () => {
  test("a partial reply changes its rows only", () => {
    const observations = makeObservations(layout, 3);
    observations.merge(rows(1, 2, 3, 4, 5, 6), null, []);
    observations.merge(rows(9, 9), [1], []);
    expect((observations.last() as NdArray).toList()).toEqual([
      [1, 2],
      [9, 9],
      [5, 6],
    ]);
  });

  test("a failed row keeps its last good observation, zeros if it never had one", () => {
    const observations = makeObservations(layout, 2);
    observations.merge(rows(1, 2, 0, 0), null, [1]);
    observations.merge(rows(0, 0, 0, 0), null, [0, 1]);
    expect((observations.last() as NdArray).toList()).toEqual([
      [1, 2],
      [0, 0],
    ]);
  });

  test("what was returned never changes later, and is the caller's to change", () => {
    const observations = makeObservations(layout, 2);
    observations.merge(rows(1, 1, 1, 1), null, []);
    const returned = observations.last() as NdArray;
    observations.merge(rows(2, 2), [0], []);
    expect(returned.toList()).toEqual([
      [1, 1],
      [1, 1],
    ]);
    (returned.data as Float32Array).fill(9);
    ((observations.last() as NdArray).data as Float32Array).fill(9);
    expect((observations.last() as NdArray).toList()).toEqual([
      [2, 2],
      [1, 1],
    ]);
  });

  test("a dict of arrays comes back as a dict, a list pool as a list", () => {
    const tree = { dict: [["a", { field: 0 }]] as [string, { field: number }][] };
    const observations = makeObservations({ ...layout, tree }, 1);
    observations.merge(rows(1, 2), null, []);
    expect((observations.last() as { a: NdArray }).a.toList()).toEqual([[1, 2]]);
    const list = makeObservations({ kind: "list" }, 2);
    list.merge({ kind: "list", values: ["x", "y"] }, null, []);
    expect(list.merge({ kind: "list", values: [null] }, [1], [1])).toEqual(["x", null]);
  });

  test("a list pool's failed row is null once, and its last good value for as long as it is not selected", () => {
    const list = makeObservations({ kind: "list" }, 2);
    list.merge({ kind: "list", values: ["a", "b"] }, null, []);
    expect(list.merge({ kind: "list", values: ["a2", null] }, null, [1])).toEqual(["a2", null]);
    expect(list.merge({ kind: "list", values: ["a3"] }, [0], [])).toEqual(["a3", "b"]);
  });

  test("results of a few rows are joined in the order in which they came, with the last good one where a row failed", () => {
    const observations = makeObservations(layout, 3);
    observations.merge(rows(1, 1, 2, 2, 3, 3), null, []);
    const first = observations.take(rows(7, 7, 8, 8), [2, 0], []);
    const second = observations.take(rows(0, 0), [2], [2]);
    expect((observations.join([first, second]) as NdArray).toList()).toEqual([
      [7, 7],
      [8, 8],
      [7, 7],
    ]);
    expect((observations.join([observations.pick(first, [1])]) as NdArray).toList()).toEqual([[8, 8]]);
    expect((observations.join([]) as NdArray).shape).toEqual([0, 2]);
    const one = observations.at(first, 0) as NdArray;
    (observations.join([first]) as NdArray).data.fill(9 as never);
    expect(one.toList()).toEqual([7, 7]);
    expect((observations.last() as NdArray).toList()).toEqual([
      [8, 8],
      [2, 2],
      [7, 7],
    ]);
  });

  test("a reply with too few rows is a protocol violation, not a wrong result", () => {
    expect(() => makeObservations(layout, 2).merge(rows(1, 2), null, [])).toThrow(
      /sent <f4 \[1, 2\] as observation field 0; the pool's layout says <f4 \[2, 2\]/,
    );
  });
});
