import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWorker } from "@sandpool/worker";
import { afterAll, expect, test, vi } from "vitest";
import { createLogger, createServer } from "../../src/index.ts";
import { MachineServer } from "../machineServer.ts";
import { ask, serveInside } from "../ports/support.ts";
import { TestServer } from "../startTestServer.ts";
import { TestWorker } from "../testWorker.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const dataDir = await mkdtemp(join(tmpdir(), "sandpool-calls-"));
let worker: Awaited<ReturnType<typeof createWorker>>;

async function start(box = "box"): Promise<MachineServer> {
  worker = await createWorker({ dataDir });
  const logger = createLogger({ level: "silent" });
  const running = await createServer({ worker, dataDir, listen: "127.0.0.1:0", credentialsFile: null, logger });
  return new MachineServer(new TestServer(running, new TestWorker(), dataDir, []), "", box);
}

afterAll(async () => {
  worker = await createWorker({ dataDir });
  for (const id of await worker.machines.list()) await worker.machines.remove(id);
  await worker.close();
  await rm(dataDir, { recursive: true, force: true });
  const key = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  await rm(`/run/sandpool/${key}`, { recursive: true, force: true });
});

test("row 17: after a restart of the server a request joins the exec it began, links and public ports hold", async () => {
  const first = await start();
  const id = await first.newMachine({ name: "box" });
  await serveInside(first, 8000);
  await first.api.send({ method: "PUT", path: "/v1/machines/box/ports/8001", body: '{"public":true}' });
  const link = new URL(String((await first.api.post("/v1/machines/box/ports/8000/link", {})).json.url)).search;
  const headers = { "idempotency-key": "joined" };
  const request = { command: "echo run >> /tmp/runs; until [ -e /tmp/go ]; do sleep 0.05; done; cat /tmp/runs" };
  const cut = first.tryExec(request, { headers }).catch((error: NodeJS.ErrnoException) => error);
  const gone = first
    .exec({ command: "sleep 7" }, { headers: { "idempotency-key": "never-asked-again" } })
    .catch(() => null);
  while ((await first.exec({ command: "cat /tmp/runs" })).exit_code !== 0);
  await first.api.running.close();
  await Promise.all([cut, gone]);

  const second = await start(id);
  const outcome = second.exec(request, { headers });
  const other = await second.tryExec({ command: "true" }, { headers });
  expect([other.status, other.json.error?.code]).toEqual([409, "conflict"]);
  await second.run("touch /tmp/go");
  expect(await outcome).toMatchObject({ stdout: "run\n", exit_code: 0 });
  expect((await ask(second, { key: null, path: `/${link}` })).status).toBe(200);
  expect((await ask(second, { key: null, port: 8001 })).code).toBe("port_refused");
  await second.api.running.close();
});
