import { describe, expect, test } from "vitest";
import { NdArray, Tuple, type Value } from "../../src/index.ts";
import { readActionSpace } from "../../src/pool/actionSpace.ts";
import { type Action, type Actions, readActions } from "../../src/pool/actions.ts";
import { selectRows } from "../../src/pool/selection.ts";

const box = readActionSpace({ type: "Box", dtype: "<f4", shape: [2], low: -1, high: 1 });
const discrete = readActionSpace({ type: "Discrete", n: 4, start: 0, dtype: "<i8" });
const dict = readActionSpace({
  type: "Dict",
  spaces: [
    ["move", { type: "Discrete", n: 3, start: 0 }],
    ["aim", { type: "Box", dtype: "<f4", shape: [2] }],
  ],
});
const tuple = readActionSpace({
  type: "Tuple",
  spaces: [
    { type: "Discrete", n: 3 },
    { type: "Discrete", n: 3 },
  ],
});

const all = selectRows(null, 3);
const some = selectRows([2, 0], 3);

function listed(actions: NdArray | readonly Action[]): unknown {
  return actions instanceof NdArray ? [actions.dtype, actions.toList()] : actions;
}

describe("actions", () => {
  test("of a typed array without a shape get that of the space", () => {
    const flat = Float32Array.of(0, 1, 2, 3, 4, 5);
    expect(listed(readActions(flat, all, 3, box))).toEqual([
      "<f4",
      [
        [0, 1],
        [2, 3],
        [4, 5],
      ],
    ]);
    expect(listed(readActions(flat.subarray(0, 4), some, 3, box))).toEqual([
      "<f4",
      [
        [2, 3],
        [0, 1],
      ],
    ]);
    expect(listed(readActions(Int32Array.of(1, 2, 3), all, 3, discrete))).toEqual(["<i4", [1, 2, 3]]);
  });

  test("that are arrays of one dtype and shape become one array, others stay values", () => {
    const alike = [Float32Array.of(1, 2), Float32Array.of(3, 4), NdArray.from(Float32Array.of(5, 6))];
    expect(listed(readActions(alike, all, 3, box))).toEqual([
      "<f4",
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
    ]);
    const mixed = [Float32Array.of(1, 2), Float64Array.of(3, 4), null];
    expect(readActions(mixed, all, 3, null)).toBe(mixed);
    const bytes = [Buffer.from("a"), Buffer.from("b"), Buffer.from("c")];
    expect(readActions(bytes, all, 3, null)).toBe(bytes);
  });

  test("of n rows are those of the selected rows, of as many as are selected in the order of where", () => {
    expect(readActions(["a", "b", "c"], some, 3, null)).toEqual(["a", "c"]);
    expect(readActions(["for 2", "for 0"], some, 3, null)).toEqual(["for 0", "for 2"]);
    expect(listed(readActions(Int8Array.of(20, 10), some, 3, discrete))).toEqual(["|i1", [10, 20]]);
  });

  test("of a space of numbers that are no text are the pool's to judge", () => {
    for (const actions of [
      [null, 1, 2],
      [true, false, 1],
      [10n ** 30n, 1, 2],
      [[1], [2, 3], 4],
      [{ a: 1 }, 2, 3],
    ]) {
      expect(readActions(actions as Action[], all, 3, discrete)).toBe(actions);
    }
  });

  test("of no row are none", () => {
    expect(listed(readActions(new Float32Array(0), selectRows([], 3), 3, box))).toEqual(["<f4", []]);
    expect(readActions([], selectRows([], 3), 3, null)).toEqual([]);
  });

  test("for a Dict space come as columns or as one object a row, for a Tuple space as a Tuple of columns", () => {
    const columns = { aim: Float32Array.of(1, 2, 3), move: [0, 1, 2] };
    const rows = readActions(columns as Actions, all, 3, dict) as { move: number; aim: NdArray }[];
    expect(rows.map(({ move, aim }) => [move, aim.item()])).toEqual([
      [0, 1],
      [1, 2],
      [2, 3],
    ]);
    const single = [{ move: 1, aim: [0, 0] }];
    expect(readActions(single, selectRows([1], 3), 3, dict)).toEqual(single);
    const pairs = readActions(
      Tuple.fromItems([
        [1, 2, 3],
        [4, 5, 6],
      ]),
      all,
      3,
      tuple,
    ) as Value[];
    expect(pairs).toEqual([
      [1, 4],
      [2, 5],
      [3, 6],
    ]);
    expect(pairs[0]).toBeInstanceOf(Tuple);
  });

  test.each([
    [new Float32Array(3), all, discrete, /dtype <f4; expected integers for the action space Discrete/],
    [NdArray.from(new Float32Array(9), [3, 3]), all, box, /shape \[3, 3\]; expected \[3, 2\] for the action space Box/],
    [["a", "a", "a"], all, discrete, /row 0 is the string a; expected integers for the action space Discrete/],
    [["2", 0], some, discrete, /row 2 is the string 2; expected integers/],
    [[1, 0.5, 1], all, discrete, /row 1 is the number 0\.5; expected integers/],
    [[1, Buffer.from("b"), 1], all, discrete, /row 1 is an object of class Buffer; expected integers/],
    [
      [
        [1, 2],
        [1, "x"],
        [1, 2],
      ],
      all,
      box,
      /row 1 is the list \[1,"x"\]; expected numbers for the action space Box/,
    ],
    [[Float32Array.of(1), Int32Array.of(1), 1], all, discrete, /row 0 is an object of class Float32Array; expected/],
    [new Float32Array(5), all, box, /5 items; expected 3/],
    [new NdArray("<f4", [], Float32Array.of(1)), all, null, /an array of shape \[\]/],
    [{ move: [1, 2, 3] }, all, dict, /keys \["move"\]; expected those of the Dict space/],
    [{ move: [1, 2, 3], aim: [1, 2] }, all, dict, /columns of 3 and 2 rows/],
    [{ move: [1, 2, 3] }, all, null, /an object of class Object; expected a list/],
    [3, all, null, /the number 3; expected a list.*/],
    ["abc", all, null, /the string abc/],
  ] as [Actions, typeof all, typeof box, RegExp][])(
    "%j are refused before anything is sent",
    (actions, selection, space, message) => {
      expect(() => readActions(actions, selection, 3, space)).toThrow(message);
    },
  );
});
