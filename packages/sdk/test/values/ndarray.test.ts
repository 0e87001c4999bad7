import { describe, expect, test } from "vitest";
import { NdArray } from "../../src/index.ts";

const array = NdArray.from(Float32Array.of(0, 1, 2, 3, 4, 5), [2, 3]);

describe("an array", () => {
  test("gives the item at one index an axis", () => {
    expect([array.at(0, 0), array.at(1, 2)]).toEqual([0, 5]);
    expect(() => array.at(1, 3)).toThrow(/Index \[1, 3\] of an array of shape \[2, 3\]/);
    expect(() => array.at(1)).toThrow(RangeError);
    expect(new NdArray("|b1", [2], Uint8Array.of(0, 1)).at(1)).toBe(true);
    expect(NdArray.from(BigInt64Array.of(7n, 2n ** 60n)).toList()).toEqual([7, 2n ** 60n]);
  });

  test("gives rows as views on its memory", () => {
    const own = array.copy();
    for (const row of own.rows()) (row.data as Float32Array)[0] = 9;
    expect(own.toList()).toEqual([
      [9, 1, 2],
      [9, 4, 5],
    ]);
    expect(() => array.row(2)).toThrow(/Row 2 of an array of shape \[2, 3\]: expected 0 to 1/);
    expect([...NdArray.from(Int8Array.of(4, 5)).rows()].map((row) => row.toList())).toEqual([4, 5]);
  });

  test("whose bytes are not those of dtype and shape is refused with both counts", () => {
    expect(() => new NdArray("<f4", [2, 2], new Float32Array(3))).toThrow(
      /dtype <f4 and shape \[2, 2\] was given 12 bytes; expected 16/,
    );
  });
});
