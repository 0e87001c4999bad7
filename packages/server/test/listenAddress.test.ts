import { describe, expect, test } from "vitest";
import { parseListen, requireSafeListen } from "../src/http/listenAddress.ts";

describe("--listen", () => {
  test.each([
    ["7070", "127.0.0.1", 7070, true],
    ["127.0.0.1:7070", "127.0.0.1", 7070, true],
    ["127.9.9.9:1", "127.9.9.9", 1, true],
    ["localhost:80", "127.0.0.1", 80, true],
    ["[::1]:7070", "::1", 7070, true],
    ["0.0.0.0:7070", "0.0.0.0", 7070, false],
    ["[::]:7070", "::", 7070, false],
    ["Box.Example:7070", "box.example", 7070, false],
    ["127.0.0.1.evil.example:1", "127.0.0.1.evil.example", 1, false],
  ])("%s binds %s", (text, host, port, loopback) => {
    expect(parseListen(text)).toMatchObject({ host, port, loopback });
  });

  test.each([
    [""],
    ["localhost"],
    [":7070"],
    ["a b:1"],
    ["localhost:70000"],
    ["::1:7070"],
    ["http://localhost:1"],
    ["-x:1"],
  ])("%s is refused, naming what was received", (text) => {
    expect(() => parseListen(text)).toThrow(JSON.stringify(text));
  });

  test("beyond loopback needs TLS or insecure", () => {
    const open = parseListen("0.0.0.0:7070");
    expect(() => requireSafeListen(open, false, false)).toThrow(expect.objectContaining({ code: "listen_refused" }));
    expect(() => requireSafeListen(open, true, false)).not.toThrow();
    expect(() => requireSafeListen(open, false, true)).not.toThrow();
    expect(() => requireSafeListen(parseListen("[::1]:1"), false, false)).not.toThrow();
  });
});
