import { execFileSync } from "node:child_process";
import { NdArray, Tuple } from "sandpool";
import { describe, expect, test } from "vitest";
import { findOutside } from "../../src/check/contains.ts";
import { Random } from "../../src/check/random.ts";
import { sample, unsampleable } from "../../src/check/sample.ts";
import { describeSpace, readSpace, type Space } from "../../src/check/spaces.ts";

/** A wire array without going through the client's encoder. */
const nd = (dtype: string, shape: number[], data: ArrayBufferView): unknown => ({
  $nd: [dtype, shape, Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64")],
});

const floats = (...values: number[]): unknown => nd("<f4", [values.length], Float32Array.from(values));
const box = {
  type: "Box",
  dtype: "<f4",
  shape: [4],
  low: floats(-1, 0, -Infinity, -Infinity),
  high: floats(1, Infinity, 3, Infinity),
};
const longs = nd("<i8", [2], BigInt64Array.of(-(2n ** 63n), 5n));
const longBox = {
  type: "Box",
  dtype: "<i8",
  shape: [2],
  low: longs,
  high: nd("<i8", [2], BigInt64Array.of(2n ** 63n - 1n, 5n)),
};
const discrete = { type: "Discrete", n: 3, start: -1, dtype: "<i8" };

const WIRE_SPACES: Record<string, unknown> = {
  "Box with every kind of bound": box,
  "Box of 64-bit integers": longBox,
  Discrete: discrete,
  MultiDiscrete: {
    type: "MultiDiscrete",
    nvec: nd("<i8", [2], BigInt64Array.of(2n, 5n)),
    start: nd("<i8", [2], BigInt64Array.of(0n, 10n)),
    dtype: "<i8",
  },
  "MultiBinary of a number": { type: "MultiBinary", n: 4 },
  "MultiBinary of a shape": { type: "MultiBinary", n: [2, 2] },
  Text: { type: "Text", min: 1, max: 5, charset: "abc" },
  Dict: {
    type: "Dict",
    spaces: [
      ["a", discrete],
      ["b", box],
    ],
  },
  Tuple: { type: "Tuple", spaces: [discrete, box] },
  OneOf: { type: "OneOf", spaces: [discrete, box] },
  Sequence: { type: "Sequence", space: discrete, stack: false },
  Graph: { type: "Graph", node: box, edge: discrete },
};

describe("the seeded sampler", () => {
  test.each(Object.entries(WIRE_SPACES))(
    "%s: 300 samples lie in the space and differ from each other",
    (_name, wire) => {
      const space = readSpace(wire) as Space;
      expect(unsampleable(space)).toBeNull();
      const random = new Random(7);
      const samples = Array.from({ length: 300 }, () => sample(space, random));
      for (const drawn of samples) expect(findOutside(space, drawn, "action")).toBeNull();
      expect(
        new Set(
          samples.map((drawn) => JSON.stringify(drawn, (_, item) => (typeof item === "bigint" ? `${item}` : item))),
        ).size,
      ).toBeGreaterThan(2);
    },
  );

  test("the same seed draws the same values, another seed others", () => {
    const draw = (seed: number): unknown => {
      const random = new Random(seed);
      return Array.from({ length: 20 }, () => sample(readSpace(box) as Space, random));
    };
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
  });

  test("SplitMix64 gives the reference's numbers", () => {
    const reference = `
state = 1234567
def nextval():
    global state
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)
print(*(nextval() for _ in range(5)))`;
    const expected = execFileSync("/usr/bin/python3", ["-c", reference], { encoding: "utf8" }).trim().split(" ");
    const random = new Random(1234567);
    expect(Array.from({ length: 5 }, () => `${random.bits()}`)).toEqual(expected);
    // The first numbers published with the algorithm for this seed.
    expect(expected.slice(0, 2)).toEqual(["6457827717110365317", "3203168211198807973"]);
  });

  test("an action mask is honoured", () => {
    const random = new Random(3);
    const mask = new NdArray("|i1", [3], Int8Array.of(0, 1, 0));
    for (let draw = 0; draw < 50; draw += 1) expect(sample(readSpace(discrete) as Space, random, mask)).toBe(0);
  });

  test("a custom space is not sampled, and says why", () => {
    const space = readSpace({ type: "Dict", spaces: [["x", { type: "Custom", repr: "MySpace()" }]] }) as Space;
    expect(unsampleable(space)).toMatch(/MySpace\(\)/);
  });
});

describe("whether a value is in a space", () => {
  const array = (...values: number[]): NdArray => NdArray.from(Float32Array.from(values));
  test.each([
    [box, array(0, 0, 0, 0), null],
    [box, array(1.5, 0, 0, 0), "x[0]: 1.5 is above 1"],
    [box, array(0, -1, 0, 0), "x[1]: -1 is below 0"],
    [box, array(0, 0, Number.NaN, 0), "x[2]: NaN is in no Box"],
    [box, array(0, 0), "x: float32 array [2], expected the shape [4]"],
    [box, "text", "x: text of 4, expected the shape [4]"],
    [discrete, 1, null],
    [discrete, 2, "x: 2 is outside -1 to 1"],
    [discrete, 0.5, "x: number is not a whole number"],
    [WIRE_SPACES.Text, "abcabc", "x: 6 characters, outside 1 to 5"],
    [WIRE_SPACES.Text, "abz", 'x: the character "z" is not in the charset'],
    [WIRE_SPACES.Dict, { a: 0 }, 'x: the key "b" is missing'],
    [WIRE_SPACES.Dict, { a: 0, b: array(0, 0, 0, 0), c: 1 }, 'x: the key "c" is not in the space'],
    [WIRE_SPACES.Tuple, Tuple.fromItems([5, array(0, 0, 0, 0)]), "x[0]: 5 is outside -1 to 1"],
    [WIRE_SPACES.OneOf, Tuple.fromItems([0, 9]), "x[1]: 9 is outside -1 to 1"],
    [
      WIRE_SPACES["MultiBinary of a shape"],
      [
        [0, 1],
        [1, 2],
      ],
      "x[3]: 2 is outside 0 to 1",
    ],
    [WIRE_SPACES["Box of 64-bit integers"], [2n ** 63n - 1n, 6n], "x[1]: 6 is above 5"],
  ])("%#: says where and why", (wire, value, reason) => {
    expect(findOutside(readSpace(wire) as Space, value as never, "x")).toBe(reason);
  });

  test("a space is described in a line", () => {
    expect(describeSpace(readSpace(WIRE_SPACES.Dict) as Space)).toBe(
      "Dict(a: Discrete(3, start -1), b: Box(float32, [4]))",
    );
  });
});
