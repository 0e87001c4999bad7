import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { createLogger } from "../src/index.ts";

function logged(write: (logger: ReturnType<typeof createLogger>) => void): string {
  let text = "";
  const destination = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  write(createLogger({ destination }));
  return text;
}

test("no control character or direction mark of a sandbox reaches the log unescaped", () => {
  const hostile = "\u001b]0;title\u0007\u009b31m\u007f\u202e\u2028\r\n";
  const text = logged((logger) => logger.warn({ stderr: hostile, err: new Error(hostile) }, hostile));
  const codes = Array.from(text.slice(0, -1), (character) => character.charCodeAt(0));
  expect(
    codes.filter((code) => code < 0x20 || (code > 0x7e && code < 0xa0) || (code > 0x2027 && code < 0x202f)),
  ).toEqual([]);
  expect((JSON.parse(text) as { stderr: string }).stderr).toBe(hostile);
});

test("secrets are redacted at every depth the server logs", () => {
  const text = logged((logger) => {
    logger.info({
      key: "sp_marker",
      headers: { authorization: "sp_marker" },
      request: { headers: { authorization: "sp_marker" } },
    });
    logger.info({
      created: { key: "sp_marker" },
      a: { b: { token: "sp_marker" } },
      pool: { env: { SECRET: "sp_marker" } },
    });
  });
  expect(text).not.toContain("sp_marker");
  expect(text).toContain("[redacted]");
});

test("an error is logged without the properties a request may have hung on it", () => {
  const error = Object.assign(new Error("broken"), { code: "EIO", headers: { authorization: "sp_marker" } });
  const text = logged((logger) => logger.error({ err: error }));
  expect(text).toContain('"code":"EIO"');
  expect(text).not.toContain("sp_marker");
});
