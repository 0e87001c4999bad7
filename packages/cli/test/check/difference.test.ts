import { NdArray, Tuple } from "sandpool";
import { expect, test } from "vitest";
import { firstDifference } from "../../src/check/difference.ts";

const array = (...values: number[]): NdArray => NdArray.from(Float32Array.from(values));

test.each([
  [{ a: [1, array(1, 2)] }, { a: [1, array(1, 3)] }, { field: "observation.a[1][1]", left: 2, right: 3 }],
  [{ a: 1 }, { a: 1, b: 2 }, { field: "observation.b", left: null, right: 2 }],
  [[1, 2], [1], { field: "observation.length", left: 2, right: 1 }],
  ["x", 1, { field: "observation", left: "x", right: 1 }],
])("the first difference is named with its place and both values (%#)", (left, right, expected) => {
  expect(firstDifference(left as never, right as never, "observation")).toEqual(expected);
});

test.each([
  [Number.NaN, Number.NaN],
  [array(Number.NaN, 1), array(Number.NaN, 1)],
  [Tuple.fromItems([1, "a"]), Tuple.fromItems([1, "a"])],
  [Buffer.from("ab"), Buffer.from("ab")],
])("equal values have none, NaN included (%#)", (left, right) => {
  expect(firstDifference(left as never, right as never, "x")).toBeNull();
});
