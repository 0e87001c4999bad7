import { describe, expect, test } from "vitest";
import { pickRows, selectRows } from "../../src/pool/selection.ts";

describe("where", () => {
  test("null is every row", () => {
    expect(selectRows(null, 3)).toEqual({ rows: null, count: 3, order: null });
  });

  test("booleans are a mask", () => {
    expect(selectRows([true, false, true], 3)).toEqual({ rows: [0, 2], count: 2, order: null });
  });

  test("integers are indices, sent in index order whatever the caller's order", () => {
    const selection = selectRows([2, 0], 3);
    expect(selection).toEqual({ rows: [0, 2], count: 2, order: [1, 0] });
    expect(pickRows("actions", ["for 2", "for 0"], selection, 3)).toEqual(["for 0", "for 2"]);
  });

  test("a list of n is taken by row index", () => {
    expect(pickRows("options", ["a", "b", "c"], selectRows([2, 0], 3), 3)).toEqual(["a", "c"]);
  });

  test("empty selects nothing", () => {
    expect(selectRows([], 3).count).toBe(0);
  });

  test.each([
    [[true, false], /mask of 2 booleans; expected 3/],
    [[0, 3], /where has 3; expected whole numbers from 0 to 2/],
    [[-1], /where has -1/],
    [[0.5], /where has 0.5/],
    [[1, 1], /where has row 1 twice/],
    [[true, 1, false], /where has false/],
    ["ab", /where is the string ab; expected a list/],
    [1, /where is the number 1/],
    [Uint8Array.of(1), /where is an object of class Uint8Array/],
    [new Set([1]), /class Set/],
  ] as unknown as [number[] | boolean[], RegExp][])("%j is refused before anything is sent", (where, message) => {
    expect(() => selectRows(where, 3)).toThrow(message);
  });

  test("a list of another length is refused with both lengths", () => {
    expect(() => pickRows("actions", [1], selectRows([0, 1], 3), 3)).toThrow(/actions has 1 items; expected 3.*or 2/);
  });
});
