import { describe, expect, test } from "vitest";
import { Observations } from "../../src/pool/observations.ts";
import { NdArray } from "../../src/values/ndarray.ts";

const layout = { kind: "array" as const, fields: [{ dtype: "<f4", shape: [2] }], tree: { field: 0 } };
const rows = (...data: number[]): { kind: "array"; fields: NdArray[] } => ({
  kind: "array",
  fields: [new NdArray("<f4", [data.length / 2, 2], Float32Array.from(data))],
});

describe("the last observation of every row", () => {
  test("a partial reply changes its rows only", () => {
    const observations = new Observations(layout, 3);
    observations.update(rows(1, 2, 3, 4, 5, 6), null, []);
    observations.update(rows(9, 9), [1], []);
    expect((observations.current() as NdArray).toList()).toEqual([
      [1, 2],
      [9, 9],
      [5, 6],
    ]);
  });

  test("a failed row keeps its last good observation, zeros if it never had one", () => {
    const observations = new Observations(layout, 2);
    observations.update(rows(1, 2, 0, 0), null, [1]);
    observations.update(rows(0, 0, 0, 0), null, [0, 1]);
    expect((observations.current() as NdArray).toList()).toEqual([
      [1, 2],
      [0, 0],
    ]);
  });

  test("what was returned never changes later, and is the caller's to change", () => {
    const observations = new Observations(layout, 2);
    observations.update(rows(1, 1, 1, 1), null, []);
    const returned = observations.current() as NdArray;
    observations.update(rows(2, 2), [0], []);
    expect(returned.toList()).toEqual([
      [1, 1],
      [1, 1],
    ]);
    (returned.data as Float32Array).fill(9);
    ((observations.current() as NdArray).data as Float32Array).fill(9);
    expect((observations.current() as NdArray).toList()).toEqual([
      [2, 2],
      [1, 1],
    ]);
  });

  test("a dict of arrays comes back as a dict, a list pool as a list", () => {
    const tree = { dict: [["a", { field: 0 }]] as [string, { field: number }][] };
    const observations = new Observations({ ...layout, tree }, 1);
    observations.update(rows(1, 2), null, []);
    expect((observations.current() as { a: NdArray }).a.toList()).toEqual([[1, 2]]);
    const list = new Observations({ kind: "list" }, 2);
    list.update({ kind: "list", values: ["x", "y"] }, null, []);
    list.update({ kind: "list", values: [null] }, [1], [1]);
    expect(list.current()).toEqual(["x", null]);
  });

  test("a reply with too few rows is a protocol violation, not a wrong result", () => {
    expect(() => new Observations(layout, 2).update(rows(1, 2), null, [])).toThrow(/came with 1 rows; expected 2/);
  });
});
