import { createConnection, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer } from "./startTestServer.ts";

const LIMITS = {
  headersTimeoutMs: 150,
  requestTimeoutMs: 400,
  bodyIdleMs: 150,
  connectionsCheckMs: 25,
  anonymousKeepAliveMs: 100,
};

function connect(server: TestServer): Socket {
  return createConnection(server.port, "127.0.0.1").on("error", () => {});
}

/** All that a connection receives until the server ends it. */
async function readToEnd(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (chunk) => {
    text += String(chunk);
  });
  await new Promise((resolve) => socket.once("close", resolve));
  return text;
}

function head(server: TestServer, lines: string[]): string {
  return `${[lines[0], `Host: 127.0.0.1:${server.port}`, ...lines.slice(1)].join("\r\n")}\r\n\r\n`;
}

function drip(socket: Socket, text: string): void {
  const timer = setInterval(() => (socket.writable ? socket.write(text) : clearInterval(timer)), 20);
  socket.once("close", () => clearInterval(timer));
}

describe("a connection is ended by the server", () => {
  test("when it never sends a byte", async () => {
    const server = await startTestServer({ limits: LIMITS });
    expect(await readToEnd(connect(server))).toContain("408");
  });

  test("when its headers drip", async () => {
    const server = await startTestServer({ limits: LIMITS });
    const socket = connect(server);
    socket.write("GET /v1/health HTTP/1.1\r\nX-A: ");
    drip(socket, "a");
    expect(await readToEnd(socket)).toContain('"request_timeout"');
  });

  test("when its body stands still, with an answer that says so", async () => {
    const server = await startTestServer({ limits: LIMITS });
    const id = await server.createPool();
    const socket = connect(server);
    const key = `Authorization: Bearer ${server.running.key}`;
    socket.write(
      `${head(server, [
        `POST /v1/pools/${id}/step HTTP/1.1`,
        key,
        "Content-Type: application/json",
        "Content-Length: 900",
      ])}{`,
    );
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1.1 408 .*stood still for 150 ms after 1 bytes/s);
  });

  test("when its body drips for longer than a request may take", async () => {
    const server = await startTestServer({ limits: LIMITS });
    const id = await server.createPool();
    const socket = connect(server);
    const key = `Authorization: Bearer ${server.running.key}`;
    socket.write(
      head(server, [
        `POST /v1/pools/${id}/step HTTP/1.1`,
        key,
        "Content-Type: application/json",
        "Content-Length: 900",
      ]),
    );
    drip(socket, " ");
    expect(await readToEnd(socket)).toContain("408");
  });

  test("soon after an answer, if it showed no key", async () => {
    const server = await startTestServer({ limits: LIMITS });
    const socket = connect(server);
    socket.write(head(server, ["GET /v1/health HTTP/1.1"]));
    expect(await readToEnd(socket)).toContain('{"status":"ok"');
  });

  test("at once, if its key is wrong, however long the announced body", async () => {
    const server = await startTestServer({ limits: LIMITS });
    const socket = connect(server);
    const key = "Authorization: Bearer sp_wrong";
    socket.write(
      head(server, ["POST /v1/pools HTTP/1.1", key, "Content-Type: application/json", "Content-Length: 16000000"]),
    );
    expect(await readToEnd(socket)).toContain('"unauthorized"');
  });

  test("when its headers are too large or no HTTP", async () => {
    const server = await startTestServer({ limits: LIMITS });
    const large = connect(server);
    large.write(head(server, ["GET /v1/health HTTP/1.1", `X-A: ${"a".repeat(20_000)}`]));
    expect(await readToEnd(large)).toMatch(/^HTTP\/1.1 431 .*"headers_too_large"/s);
    const noise = connect(server);
    noise.write("\x16\x03\x01 not http\r\n\r\n");
    expect(await readToEnd(noise)).toMatch(/^HTTP\/1.1 400 .*"invalid_request"/s);
  });
});

test("smuggling by two lengths or a length beside chunks is refused", async () => {
  const server = await startTestServer({ limits: LIMITS });
  const key = `Authorization: Bearer ${server.running.key}`;
  for (const lengths of [
    ["Content-Length: 5", "Content-Length: 6"],
    ["Content-Length: 5", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: xchunked"],
  ]) {
    const socket = connect(server);
    socket.write(
      `${head(server, ["POST /v1/pools HTTP/1.1", key, "Content-Type: application/json", ...lengths])}0\r\n\r\nX`,
    );
    expect(await readToEnd(socket)).toMatch(/^HTTP\/1.1 400 /);
  }
});

test("five hundred connections that drip leave an ordinary caller served, and end", async () => {
  const server = await startTestServer({ limits: { ...LIMITS, headersTimeoutMs: 1_000, requestTimeoutMs: 2_000 } });
  const slow = Array.from({ length: 500 }, () => connect(server));
  for (const socket of slow) socket.write("GET /v1/health HTTP/1.1\r\nX-A: a");
  for (let request = 0; request < 5; request += 1) expect((await server.send({ path: "/v1/pools" })).status).toBe(200);
  const answers = await Promise.all(slow.map(readToEnd));
  expect(answers.every((answer) => answer === "" || answer.includes("408"))).toBe(true);
});

test("more connections than the cap are refused, those open go on", async () => {
  const server = await startTestServer({
    limits: { ...LIMITS, headersTimeoutMs: 60_000, requestTimeoutMs: 60_000, maxConnections: 3 },
  });
  const open = [connect(server), connect(server), connect(server)];
  await Promise.all(open.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
  const refused = await server.send({ path: "/v1/health" }).catch((error: NodeJS.ErrnoException) => error.code);
  expect(refused).toBe("ECONNRESET");
  const [first] = open as [Socket, ...Socket[]];
  first.write(head(server, ["GET /v1/health HTTP/1.1", "Connection: close"]));
  expect(await readToEnd(first)).toContain("200 OK");
  for (const socket of open) socket.destroy();
});
