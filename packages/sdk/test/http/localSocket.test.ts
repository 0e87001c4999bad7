import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findLocalSocket } from "../../src/http/localSocket.ts";

const URL_OF_SERVER = "http://127.0.0.1:7070";
const folder = mkdtempSync(join(tmpdir(), "sandpool-socket-"));
const socket = join(folder, "api.sock");
let listening: Server;

beforeAll(async () => {
  listening = createServer();
  await new Promise<void>((resolve) => listening.listen(socket, resolve));
});
afterAll(() => {
  listening.close();
  rmSync(folder, { recursive: true });
});

describe("the server's unix socket", () => {
  test("is used for a server on loopback", () => {
    expect(findLocalSocket({ url: URL_OF_SERVER, key: "k" }, { url: URL_OF_SERVER, socket })).toBe(socket);
  });

  test.each([
    ["http://127.0.0.1:9999", URL_OF_SERVER], // a proxy or a forwarded port
    ["http://192.0.2.1:7070", "http://192.0.2.1:7070"], // another host
    ["https://127.0.0.1:7070", "https://127.0.0.1:7070"],
    ["http://127.0.0.1:7070/prefix", URL_OF_SERVER],
  ])("is not used for %s, announced as %s", (reached, announced) => {
    expect(findLocalSocket({ url: reached, key: "k" }, { url: announced, socket })).toBeNull();
  });

  test.each([undefined, 7, "/nowhere/api.sock", "nul\0byte", ""])("is not used where it is none: %j", (path) => {
    const endpoint = { url: URL_OF_SERVER, socket: path as string };
    expect(findLocalSocket({ url: URL_OF_SERVER, key: "k" }, endpoint)).toBeNull();
  });

  test("is not used where it is a plain file", () => {
    const file = join(folder, "file.sock");
    writeFileSync(file, "");
    expect(findLocalSocket({ url: URL_OF_SERVER, key: "k" }, { url: URL_OF_SERVER, socket: file })).toBeNull();
    expect(findLocalSocket({ url: URL_OF_SERVER, key: "k" }, undefined)).toBeNull();
  });
});
