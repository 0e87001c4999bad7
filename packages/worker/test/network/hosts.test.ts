import { expect, test } from "vitest";
import { parseExceptions } from "../../src/network/policy/exceptions.ts";
import { allowsHost, normalizeHost, parseEgressHost } from "../../src/network/policy/hosts.ts";

const list = ["one.example", "*.wide.example", "two.example:8443", "203.0.113.10", "[2001:db8::1]:443"].map(
  parseEgressHost,
);
const allows = (host: string, port: number): boolean => {
  const normal = normalizeHost(host);
  return normal !== null && allowsHost(list, normal, port);
};

test.each([
  ["one.example", 443],
  ["one.example", 80],
  ["ONE.Example", 443],
  ["one.example.", 443],
  ["ｏｎｅ.example", 443],
  ["a.wide.example", 443],
  ["a.b.wide.example", 443],
  ["two.example", 8443],
  ["203.0.113.10", 443],
  ["3405803786", 443],
  ["0xcb.0.0x71.10", 443],
  ["[2001:db8:0:0::1]", 443],
])("class 46: %s:%i is on the list", (host, port) => expect(allows(host, port)).toBe(true));

test.each([
  ["one.example", 8080],
  ["one.example", 22],
  ["sub.one.example", 443],
  ["xone.example", 443],
  ["one.example.evil.example", 443],
  ["wide.example", 443],
  ["xwide.example", 443],
  ["*.wide.example", 443],
  ["two.example", 443],
  ["two.example", 80],
  ["203.0.113.11", 443],
  ["203.0.113.10.one.evil", 443],
  ["one.example..", 443],
  [".one.example", 443],
  ["one.example\0.evil", 443],
  ["one.example#.evil", 443],
  ["one.example/", 443],
  ["one.example@evil.example", 443],
  ["user@one.example", 443],
  ["one%2eexample", 443],
  ["one.example:443", 443],
  ["one", 443],
  ["localhost", 443],
  ["", 443],
  ["[::ffff:203.0.113.10]", 443],
  ["[2001:db8::1%eth0]", 443],
  ["onе.example", 443],
])("class 46: %j:%i is not on the list", (host, port) => expect(allows(host, port)).toBe(false));

test.each([
  "",
  "*",
  "*.",
  "*example.com",
  "a.*.example",
  "https://one.example",
  "one.example/path",
  "one.example:0",
  "one.example:65536",
  "one.example:x",
  "*.203.0.113.10",
  "localhost",
  "one example",
  "10.0.0.0/8",
])("%j is no entry of an egress list, and the error says what is", (text) =>
  expect(() => parseEgressHost(text)).toThrow(/^egress: .* is none of example\.com, \*\.example\.com, an address/),
);

test("names of other alphabets are compared in their ASCII form", () => {
  expect(parseEgressHost("*.Bücher.example").host).toEqual({ kind: "name", name: "xn--bcher-kva.example" });
});

test("exceptions are addresses, networks and ports of IPv4, kept by their network", () => {
  expect(parseExceptions(["10.1.2.3", "10.1.2.3/16", "192.168.7.7:3141"])).toEqual([
    { address: "10.1.2.3", prefix: 32, port: null },
    { address: "10.1.0.0", prefix: 16, port: null },
    { address: "192.168.7.7", prefix: 32, port: 3141 },
  ]);
});

test.each([
  "169.254.169.254",
  "169.254.0.0/16",
  "169.0.0.0/8",
  "127.0.0.1:80",
  "198.19.4.4",
  "198.0.0.0/8",
  "224.0.0.1",
  "0.0.0.0/0",
  "10.0.0.0/7",
])("class 43, 44, 45: %s is no exception: it would open what stays closed", (text) =>
  expect(() => parseExceptions([text])).toThrow(/would open what stays closed/),
);

test.each([
  "10.0.0.300",
  "mirror.example",
  "fd00::1",
  "10.0.0.1:0",
  "10.0.0.1:99999",
  "10.0.0.0/33",
  "10.1",
  "10.0.0.0/8:80",
])("%s is no exception, and the error says what is one", (text) =>
  expect(() => parseExceptions([text])).toThrow(/is none of address, address\/prefix, address:port/),
);
