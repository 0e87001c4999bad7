import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { makeMachineId } from "@sandpool/protocol";
import { createWorker } from "@sandpool/worker";
import { pack } from "tar-stream";
import { expect, test } from "vitest";
import { startTestServer, type TestServer, temporaryFolder } from "../startTestServer.ts";

const LONG_AGO = new Date("2020-01-01T00:00:00Z");

async function realServer(limits = {}) {
  const dataDir = await temporaryFolder();
  const realWorker = await createWorker({ dataDir });
  return startTestServer({ dataDir, realWorker, limits });
}

/** An uploaded archive; old ones were used last long ago. */
async function upload(server: TestServer, text: string, isOld: boolean): Promise<string> {
  const tar = pack();
  tar.entry({ name: "env.py" }, text);
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(chunk as Buffer);
  const body = zstdCompressSync(Buffer.concat(chunks));
  const hash = createHash("sha256").update(body).digest("hex");
  const headers = { "content-type": "application/zstd" };
  const reply = await server.send({ method: "PUT", path: `/v1/archives/${hash}`, body, headers });
  expect(reply.status).toBe(201);
  const mark = join(server.dataDir, "archives", "trees", hash, "archive.json");
  if (isOld) await utimes(mark, LONG_AGO, LONG_AGO);
  return hash;
}

async function countOf(server: TestServer, kind: string): Promise<unknown> {
  const { parts } = (await server.send({ path: "/v1/storage" })).json;
  return (parts as { kind: string; count: number }[]).find((part) => part.kind === kind)?.count;
}

test("what nothing uses is named, then removed; what was used lately stays", async () => {
  const server = await realServer();
  const [old, late] = [await upload(server, "old", true), await upload(server, "late", false)];
  const orphan = makeMachineId();
  await mkdir(join(server.dataDir, "machines", orphan), { recursive: true });
  await writeFile(join(server.dataDir, "machines", orphan, "disk.tar.zst"), "x".repeat(10_000));
  await utimes(join(server.dataDir, "machines", orphan), LONG_AGO, LONG_AGO);
  expect(await countOf(server, "archives")).toBe(2);
  expect(await countOf(server, "machines")).toBe(1);
  const planned = (await server.post("/v1/storage/gc", { dry_run: true })).json;
  const ids = (planned.removed as { id: string; bytes: number }[]).map(({ id }) => id);
  expect(new Set(ids)).toEqual(new Set([old, orphan]));
  expect(planned.bytes).toBeGreaterThanOrEqual(10_000);
  expect(await countOf(server, "archives")).toBe(2);
  expect((await server.post("/v1/storage/gc", {})).json).toEqual(planned);
  expect((await server.send({ method: "HEAD", path: `/v1/archives/${old}` })).status).toBe(404);
  expect((await server.send({ method: "HEAD", path: `/v1/archives/${late}` })).status).toBe(200);
  expect(existsSync(join(server.dataDir, "machines", orphan))).toBe(false);
  expect((await server.post("/v1/storage/gc", {})).json).toEqual({ removed: [], bytes: 0 });
});

test("only an administrator's key removes what all share", async () => {
  const server = await realServer();
  const key = String((await server.post("/v1/keys", { name: "other", owner: "other" })).json.key);
  const refused = await server.send({ method: "POST", path: "/v1/storage/gc", body: "{}", key });
  expect([refused.status, refused.json.error?.code]).toEqual([403, "forbidden"]);
  expect((await server.send({ path: "/v1/storage", key })).status).toBe(200);
});

test("past the cap the least recently used goes by itself", async () => {
  const server = await realServer({ storageCapBytes: 1, reconcileMs: 20 });
  const old = await upload(server, "old", true);
  const late = await upload(server, "late", false);
  const isThere = async (hash: string) =>
    (await server.send({ method: "HEAD", path: `/v1/archives/${hash}` })).status === 200;
  while (await isThere(old)) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(await isThere(late)).toBe(true);
});
