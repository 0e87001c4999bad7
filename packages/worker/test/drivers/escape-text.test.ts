import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { escapeForLog } from "../../src/drivers/escape.ts";
import { Tail } from "../../src/drivers/tail.ts";

describe("text from a sandbox", () => {
  test.each([
    ["\x1b]0;title\x07", "\\x1b]0;title\\x07"],
    ["a\r\nb\tc", "a\\x0d\nb\tc"],
    ["\u009b31m", "\\x9b31m"],
    ["left\u202eright", "left\\u{202e}right"],
    ["line\u2028break", "line\\u{2028}break"],
    ["Grüße 世界 🙂", "Grüße 世界 🙂"],
  ])("%j is shown as %j", (text, shown) => {
    expect(escapeForLog(Buffer.from(text))).toBe(shown);
  });

  test("no bytes whatever put a control character into a log", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => !/(?![\t\n])[\p{Cc}\p{Cf}]/u.test(escapeForLog(bytes))),
    );
  });

  test("the tail is the last bytes, however they were cut", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme-ascii", maxLength: 30 }), { maxLength: 50 }), (parts) => {
        const tail = new Tail(64);
        for (const part of parts) tail.append(Buffer.from(part));
        return tail.text() === parts.join("").slice(-64);
      }),
    );
  });
});
