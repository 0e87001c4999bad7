import { expect, test } from "vitest";
import { readClientHello } from "../../src/network/service/hello.ts";
import { encryptedHello, makeHello, record, recordHello, serverName } from "./hellos.ts";

test("a real client's server name is read, and that it has none", async () => {
  expect(readClientHello(await recordHello("One.Example"))).toEqual({
    kind: "hello",
    serverName: "One.Example",
    encrypted: false,
  });
  expect(readClientHello(await recordHello(null))).toEqual({ kind: "hello", serverName: null, encrypted: false });
});

test("every beginning of a hello waits for more, and is never taken for something else", async () => {
  const hello = await recordHello("one.example");
  for (let length = 0; length < hello.length; length += 1) {
    expect(readClientHello(hello.subarray(0, length))).toEqual({ kind: "more" });
  }
});

test("a hello that is cut into records of one byte each is read whole", () => {
  const hello = makeHello([serverName("one.example")]);
  const message = hello.subarray(5);
  const pieces = Buffer.concat([...message].map((byte) => record(Buffer.from([byte]))));
  expect(readClientHello(pieces)).toEqual({ kind: "hello", serverName: "one.example", encrypted: false });
});

test("an encrypted hello is told", () => {
  const hello = makeHello([serverName("one.example"), encryptedHello]);
  expect(readClientHello(hello)).toEqual({ kind: "hello", serverName: "one.example", encrypted: true });
});

test.each([
  ["two names in one extension", makeHello([serverName("one.example", "two.example")])],
  ["two server name extensions", makeHello([serverName("one.example"), serverName("two.example")])],
  ["an empty name", makeHello([serverName("")])],
  ["a name with a NUL", makeHello([serverName("one.example\0.two.example")])],
  ["an extension longer than the message", makeHello([{ type: 0, content: Buffer.from([0, 200, 0, 0, 3]) }])],
  ["another handshake message", record(Buffer.from([2, 0, 0, 0]))],
  [
    "an alert between two halves",
    Buffer.concat([
      makeHello([]).subarray(0, 5).fill(0, 3, 4).fill(1, 4, 5),
      Buffer.from([1]),
      Buffer.from([21, 3, 3, 0, 2, 1, 0]),
    ]),
  ],
])("%s is broken", (_what, bytes) => expect(readClientHello(bytes)).toEqual({ kind: "broken" }));

test.each([
  ["a line of text", Buffer.from("SSH-2.0-x\r\n")],
  ["SSL 2", Buffer.from([0x80, 0x2e, 1])],
  ["another version", Buffer.from([22, 4])],
])("%s is no TLS", (_what, bytes) => expect(readClientHello(bytes)).toEqual({ kind: "other" }));
