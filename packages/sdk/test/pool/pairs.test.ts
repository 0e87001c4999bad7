import { describe, expect, test } from "vitest";
import { ArgumentError } from "../../src/index.ts";
import { forkPairs, readReseed, restorePairs } from "../../src/pool/pairs.ts";
import { checkStates, type SavedState } from "../../src/pool/savedState.ts";

const state = (id: string, row: number, poolId = "pool_a"): SavedState => ({
  ...{ id, row, poolId, episode: 0, step: 0, seed: null, createdAt: new Date(0), way: "fork" },
  ...{ pending: false, lost: null, pssBytes: null },
});

describe("the pairs of a fork", () => {
  test.each([
    ["one to one", 0, 2, [[0, 2]]],
    [
      "one to many",
      1,
      [3, 0],
      [
        [1, 3],
        [1, 0],
      ],
    ],
    [
      "one to a mask",
      1,
      [true, false, false, true],
      [
        [1, 0],
        [1, 3],
      ],
    ],
    [
      "lists, one by one",
      [0, 1],
      [3, 2],
      [
        [0, 3],
        [1, 2],
      ],
    ],
    [
      "an exchange",
      [0, 1],
      [1, 0],
      [
        [0, 1],
        [1, 0],
      ],
    ],
    ["nothing", [], [], []],
  ])("%s", (_, source, target, pairs) => {
    expect(forkPairs(source, target, 4).pairs).toEqual(pairs);
  });

  test("have their targets in index order for the reply", () => {
    expect(forkPairs(1, [3, 0], 4).selection).toMatchObject({ rows: [0, 3], count: 2 });
  });

  test.each([
    ["a source out of range", 4, [0], /^source is the number 4; expected a whole number from 0 to 3/],
    ["a source that is a mask", [true, false, false, false], [0], /^source\[0\] is the boolean true/],
    ["a target twice", 0, [1, 1], /^target has row 1 twice/],
    ["a target out of range", 0, [1, -1], /^target\[1\] is the number -1/],
    ["a short mask", 0, [true], /mask of 1 booleans; expected 4/],
    ["lists of unequal length", [0, 1], [2], /^2 sources were given for 1 targets/],
    ["a text", 0, "all", /^target is .*; expected a row, a list of rows, or a mask of 4 booleans/],
  ])("are refused for %s", (_, source, target, message) => {
    expect(() => forkPairs(source, target, 4)).toThrow(ArgumentError);
    expect(() => forkPairs(source, target, 4)).toThrow(message);
  });
});

describe("the pairs of a restore", () => {
  const [a, b, again] = [state("st_a", 2), state("st_b", 0), state("st_c", 2)];

  test.each([
    [
      "each to its own row",
      [a, b],
      null,
      [
        ["st_a", 2],
        ["st_b", 0],
      ],
    ],
    [
      "each to a target, in the order given",
      [a, b],
      [1, 0],
      [
        ["st_a", 1],
        ["st_b", 0],
      ],
    ],
    [
      "one to many",
      [a],
      [3, 1],
      [
        ["st_a", 3],
        ["st_a", 1],
      ],
    ],
    [
      "to a mask's rows, ascending",
      [a, b],
      [false, true, false, true],
      [
        ["st_a", 1],
        ["st_b", 3],
      ],
    ],
  ])("%s", (_, states, where, pairs) => {
    expect(restorePairs(states, where, 4).pairs).toEqual(pairs);
  });

  test("of two states of one row need targets", () => {
    expect(() => restorePairs([a, again], null, 4)).toThrow(/two states of row 2 and no where/);
    expect(() => restorePairs([a, b], [1, 2, 3], 4)).toThrow(/^2 states were given for 3 targets/);
  });

  test("are of this pool's states only", () => {
    expect(checkStates("restore", a, "pool_a")).toEqual([a]);
    expect(() => checkStates("restore", [a, state("st_z", 0, "pool_z")], "pool_a")).toThrow(
      /^restore: states\[1\] is st_z of the pool pool_z; expected one of pool_a/,
    );
    expect(() => checkStates("drop", ["st_a"], "pool_a")).toThrow(
      /^drop: states\[0\] is the string st_a; expected a state/,
    );
  });
});

test.each([
  [undefined, null],
  [false, null],
  [true, true],
  [7, 7],
  [
    [1, null],
    [1, null],
  ],
])("reseed %j is sent as %j", (given, sent) => {
  expect(readReseed(given, 2)).toEqual(sent);
});

test.each([
  [-1, /^reseed is the number -1/],
  [[1], /^reseed has 1 items; expected 2/],
  [[1, "x"], /^reseed\[1\] is the string x;/],
])("reseed %j is refused", (given, message) => {
  expect(() => readReseed(given, 2)).toThrow(message);
});
