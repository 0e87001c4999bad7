import { createHash } from "node:crypto";
import { createConnection } from "node:net";
import { expect, test } from "vitest";
import { startTestServer, until } from "./startTestServer.ts";

const BYTES = Buffer.from("the archive's bytes");
const SHA256 = createHash("sha256").update(BYTES).digest("hex");
const ZSTD = { "content-type": "application/zstd" };
const path = `/v1/archives/${SHA256}`;

test("an archive is missing, then stored, then there, for its owner alone", async () => {
  const server = await startTestServer();
  const other = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
  expect((await server.send({ method: "HEAD", path })).status).toBe(404);
  const put = await server.send({ method: "PUT", path, body: BYTES, headers: ZSTD });
  expect([put.status, put.json]).toEqual([201, { sha256: SHA256, bytes: BYTES.length, files: 1 }]);
  expect((await server.send({ method: "HEAD", path })).status).toBe(200);
  expect((await server.send({ method: "HEAD", path, key: other })).status).toBe(404);
});

test("bytes of another hash are refused", async () => {
  const server = await startTestServer();
  const put = await server.send({ method: "PUT", path, body: "other bytes", headers: ZSTD });
  expect([put.status, put.json.error?.code]).toEqual([400, "archive_hash_mismatch"]);
});

test("an address that is no hash is refused before the body is read", async () => {
  const server = await startTestServer();
  for (const address of ["..%2f..%2fetc", "A".repeat(64), "a".repeat(63), "a".repeat(65)]) {
    const put = await server.send({ method: "PUT", path: `/v1/archives/${address}`, body: BYTES, headers: ZSTD });
    expect(put.status).toBe(400);
  }
});

test("an upload that breaks off or stands still fails as an operation and stores nothing", async () => {
  const server = await startTestServer({ limits: { bodyIdleMs: 100 } });
  const head =
    `PUT ${path} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAuthorization: Bearer ${server.running.key}\r\n` +
    "Content-Type: application/zstd\r\nContent-Length: 1000\r\n\r\nthe arch";
  const breaking = createConnection(server.port, "127.0.0.1", () => breaking.write(head, () => breaking.destroy()));
  await until(() => server.logLines.some((line) => line.includes('"error_code":"request_timeout"')));
  const standing = createConnection(server.port, "127.0.0.1", () => standing.write(head));
  let answer = "";
  standing.on("data", (chunk) => {
    answer += String(chunk);
  });
  await new Promise((resolve) => standing.once("close", resolve));
  expect(answer).toMatch(/^HTTP\/1.1 408 .*stood still/s);
  expect(server.worker.stored.size).toBe(0);
});
