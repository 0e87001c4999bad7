import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { isPrivateAddress } from "../../src/layers/addresses.ts";
import type { AllowedHost } from "../../src/layers/allowed-hosts.ts";
import { type EgressProxy, startEgressProxy } from "../../src/layers/egress.ts";

let folder: string;
let server: Server;
let port: number;
let proxy: EgressProxy | null = null;
const seen: string[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpool-test-"));
  seen.length = 0;
  server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.host}`);
    response.end("package bytes");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
});

afterEach(async () => {
  await proxy?.close();
  proxy = null;
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true, force: true });
});

async function start(allowed: AllowedHost[], limitBytes = 1_000_000): Promise<void> {
  proxy = await startEgressProxy(folder, allowed, limitBytes);
}

const allow = (members: Partial<AllowedHost> = {}): AllowedHost => ({
  host: "localhost",
  port,
  scheme: "https",
  privateAddresses: true,
  ...members,
});

/** Sends text through the proxy's socket and returns everything that comes back until it closes. */
function exchange(text: string, afterReply = ""): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(join(folder, "proxy.sock"));
    let reply = "";
    socket.write(text);
    socket.on("data", (chunk: Buffer) => {
      if (reply === "" && afterReply !== "") socket.write(afterReply);
      reply += chunk.toString();
    });
    socket.on("close", () => resolve(reply));
    socket.on("error", () => resolve(reply));
  });
}

const get = (path = "/"): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`;

test("a listed host is reached through CONNECT", async () => {
  await start([allow()]);
  const reply = await exchange(`CONNECT localhost:${port} HTTP/1.1\r\n\r\n`, get());
  expect(reply).toMatch(/^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200 OK[\s\S]*package bytes$/);
  expect(proxy?.refused()).toEqual([]);
});

test("a host that is not listed is refused by name, and another port of a listed one too", async () => {
  await start([allow()]);
  for (const target of ["example.invalid:443", "localhost:1"]) {
    expect(await exchange(`CONNECT ${target} HTTP/1.1\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 403 Forbidden[\s\S]*not a host of the package index/,
    );
  }
  expect(proxy?.refused()).toEqual([
    "example.invalid:443 (not a host of the package index)",
    "localhost:1 (not a host of the package index)",
  ]);
});

test("a listed host that resolves to this machine is refused unless the operator named it", async () => {
  await start([allow({ privateAddresses: false })]);
  expect(await exchange(`CONNECT localhost:${port} HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403[\s\S]*private address/);
  expect(seen).toEqual([]);
});

test("plain http reaches only http hosts, as the request of that host", async () => {
  await start([allow({ scheme: "http" })]);
  const reply = await exchange(
    `GET http://localhost:${port}/simple/x/ HTTP/1.1\r\nHost: elsewhere\r\nProxy-Authorization: x\r\n\r\n`,
  );
  expect(reply).toMatch(/package bytes$/);
  expect(seen).toEqual([`GET /simple/x/ localhost:${port}`]);
  expect(await exchange(`CONNECT localhost:${port} HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403/);
});

test.each(["POST http://localhost/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n"])(
  "%j is no request for this proxy",
  async (text) => {
    await start([allow({ scheme: "http" })]);
    expect(await exchange(text)).toMatch(/^HTTP\/1\.1 400/);
  },
);

test("downloads end at the limit", async () => {
  await start([allow()], 10);
  await exchange(`CONNECT localhost:${port} HTTP/1.1\r\n\r\n`, get());
  expect(proxy?.refused()).toEqual(["everything (over 10 bytes were downloaded)"]);
});

test.each([
  "127.0.0.1",
  "10.1.2.3",
  "172.31.0.1",
  "192.168.0.1",
  "169.254.169.254",
  "100.64.0.1",
  "::1",
  "fe80::1",
  "fd00::1",
  "::ffff:10.0.0.1",
  "::ffff:7f00:1",
])("%s is an address of this host or its surroundings", (address) => expect(isPrivateAddress(address)).toBe(true));

test.each(["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"])("%s is a public address", (address) =>
  expect(isPrivateAddress(address)).toBe(false),
);
