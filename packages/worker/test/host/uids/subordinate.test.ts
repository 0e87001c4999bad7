import { expect, test } from "vitest";
import { freeSubordinate, parseSubordinate } from "../../../src/host/uids/subordinate.ts";

const ann = { name: "ann", uid: 1000 };

test.each([
  ["ann:100000:65536\n", { first: 100_000, count: 65_536 }],
  ["bob:1:5\n1000:200000:65536\n", { first: 200_000, count: 65_536 }],
  ["annabel:100000:65536\n", null],
  ["ann:x:65536\nann:300000:1\n", null],
  ["", null],
])("in %j the user's range is %j", (text, range) => {
  expect(parseSubordinate(text, ann)).toEqual(range);
});

test.each([
  ["", 100_000],
  ["bob:1000:10\n", 100_000],
  ["bob:100000:65536\n1001:165536:65536\n", 231_072],
  ["# a remark\nbob:x:5\ncarl:524288:65536", 589_824],
])("beside %j a range from %i on belongs to nobody", (text, first) => {
  expect(freeSubordinate(text)).toEqual({ first, count: 65_536 });
});
