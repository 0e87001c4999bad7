import { expect, test } from "vitest";
import { escapeControl } from "../src/escape.ts";

test.each([
  ["\u001b[2J\u001b]0;title\u0007", "\\x1b[2J\\x1b]0;title\\x07"],
  ["\u009b31m", "\\x9b31m"],
  ["a\rb\nc\td", "a\\rb\\nc\\td"],
  ["left\u202eright\u2066", "left\\u202eright\\u2066"],
  ["zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"],
  ["line\u2028end\ud800", "line\\u2028end\\ud800"],
  ["héllo wörld 漢字", "héllo wörld 漢字"],
])("%j is shown, not obeyed", (text, shown) => {
  expect(escapeControl(text)).toBe(shown);
});

test("line ends stay where lines are wanted, carriage returns never", () => {
  expect(escapeControl("a\n\tb\r\u001b", { keepLines: true })).toBe("a\n\tb\\r\\x1b");
});
