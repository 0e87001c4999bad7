import { existsSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { POOL, startTestServer, temporaryFolder } from "./startTestServer.ts";

/** Status of one request over the socket. */
function ask(socketPath: string, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path, headers: { host: "localhost:1", ...headers } }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.once("error", reject);
    sent.end();
  });
}

test("a pool's endpoint names a socket that serves the same routes under the same rules", async () => {
  const server = await startTestServer();
  const pool = (await server.post("/v1/pools", POOL)).json as unknown as { id: string; endpoint: { socket: string } };
  const { socket } = pool.endpoint;
  expect(statSync(socket).mode & 0o777).toBe(0o600);
  const host = new URL(server.running.url).host;
  const authorization = `Bearer ${server.running.key}`;
  expect(await ask(socket, `/v1/pools/${pool.id}`, { host, authorization })).toBe(200);
  expect(await ask(socket, `/v1/pools/${pool.id}/observations`, { host, authorization })).toBe(200);
  expect(await ask(socket, `/v1/pools/${pool.id}`, { host })).toBe(401);
  expect(await ask(socket, `/v1/pools/${pool.id}/observations`, { host, authorization: "Bearer wrong" })).toBe(401);
  expect(await ask(socket, `/v1/pools/${pool.id}`, { authorization })).toBe(403);
  await server.running.close();
  expect(existsSync(socket)).toBe(false);
});

test("each start has a new socket, and one that a killed server left is removed", async () => {
  const dataDir = await temporaryFolder();
  const stale = join(dataDir, "api-0123456789abcdef.sock");
  writeFileSync(stale, "");
  const server = await startTestServer({ dataDir });
  const { endpoint } = (await server.post("/v1/pools", POOL)).json as unknown as { endpoint: { socket: string } };
  expect(existsSync(stale)).toBe(false);
  expect(endpoint.socket).toMatch(/api-[0-9a-f]{16}\.sock$/);
});

test("a data folder whose path no socket can have is served over TCP alone", async () => {
  const server = await startTestServer({ dataDir: join(await temporaryFolder(), "d".repeat(100)) });
  const pool = (await server.post("/v1/pools", POOL)).json as unknown as { endpoint: object };
  expect(pool.endpoint).toEqual({ url: server.running.url });
});
