import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { decodeBatch, encodeBatch, PoolReply } from "@sandpool/protocol";
import { createWorker } from "@sandpool/worker";
import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer, temporaryFolder } from "./startTestServer.ts";

const BINARY = "application/vnd.sandpool.batch";

/** Counts its steps; the observation is [steps, last action], the reward the action. Action 9 ends the process. */
const COUNTER = `
import json, sys
steps = 0
for line in sys.stdin:
    m = json.loads(line)
    reply = {"id": m["id"]}
    if m["op"] == "hello":
        reply.update(ok=True, protocol=1, features=[], rows=1)
    elif m["op"] == "reset":
        steps = 0
        reply.update(obs=[0.0, -1.0], info={})
    elif m["op"] == "step":
        if m["action"] == 9:
            sys.exit(3)
        steps += 1
        reply.update(obs=[float(steps), float(m["action"])], reward=float(m["action"]), terminated=False)
    elif m["op"] == "call":
        reply.update(result=[m["name"], m["args"]])
    else:
        reply.update(ok=True)
    print(json.dumps(reply), flush=True)
`;

async function uploadCounter(server: TestServer): Promise<string> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "env.py"), COUNTER);
  const tar = execFileSync("tar", [
    "--sort=name",
    "--mtime=@0",
    "--owner=0",
    "--group=0",
    "--mode=0644",
    "-cf",
    "-",
    "-C",
    folder,
    "env.py",
  ]);
  const body = zstdCompressSync(tar);
  const sha256 = createHash("sha256").update(body).digest("hex");
  const put = await server.send({
    method: "PUT",
    path: `/v1/archives/${sha256}`,
    body,
    headers: { "content-type": "application/zstd" },
  });
  expect([put.status, put.json]).toEqual([201, { sha256, bytes: body.length, files: 1 }]);
  expect((await server.send({ method: "HEAD", path: `/v1/archives/${sha256}` })).status).toBe(200);
  return sha256;
}

async function startRealServer(): Promise<TestServer> {
  const dataDir = await temporaryFolder();
  await chmod(dataDir, 0o711);
  return startTestServer({ dataDir, realWorker: await createWorker({ dataDir, allowUnisolated: true }) });
}

const isolations = process.geteuid?.() === 0 ? ["unisolated", "namespace"] : ["unisolated"];

describe.each(isolations)("with real environments, %s,", (isolation) => {
  test("a pool is made, stepped in both encodings, replayed, survives a crash of one row, and leaves", async () => {
    const server = await startRealServer();
    const archive = await uploadCounter(server);
    const create = {
      archive,
      entry: "env.py",
      n: 3,
      isolation,
      start: "spawn",
      shards: 2,
      memory: "512MiB",
      workspace: "16MiB",
    };
    const body = JSON.stringify({ ...create, name: "counters" });
    const made = await server.send({
      method: "POST",
      path: "/v1/pools",
      body,
      headers: { accept: "application/x-ndjson" },
    });
    const events = made.bytes
      .toString()
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events[0].event).toBe("accepted");
    expect(events.at(-1)).toMatchObject({ event: "pool", pool: { n: 3, state: "ready", next_seq: 1 } });
    expect(Compile(PoolReply).Errors(events.at(-1).pool)).toEqual([]);
    const path = "/v1/pools/counters";

    const step = { seq: 1, actions: [1, 2, 3] };
    const first = await server.post(`${path}/step`, step);
    expect(first.json).toMatchObject({
      seq: 1,
      obs: [
        [1, 1],
        [1, 2],
        [1, 3],
      ],
      rewards: [1, 2, 3],
      terminated: [false, false, false],
      failed: [],
    });
    expect((await server.post(`${path}/step`, step)).json.obs).toEqual(first.json.obs);
    const skipped = await server.post(`${path}/step`, { ...step, seq: 7 });
    expect([skipped.status, skipped.json.error?.code, skipped.json.error?.details]).toEqual([
      409,
      "pool_sequence",
      { expected: 2, received: 7 },
    ]);

    const data = [Buffer.from(new BigInt64Array([4n, 6n]).buffer)];
    const message = Buffer.concat(
      encodeBatch({ seq: 2, where: [0, 2] }, [{ name: "actions", dtype: "<i8", shape: [2], data }]).chunks,
    );
    const binary = await server.send({
      method: "POST",
      path: `${path}/step`,
      body: message,
      headers: { "content-type": BINARY, accept: BINARY },
    });
    const fields = Object.fromEntries(decodeBatch(binary.bytes).fields.map((field) => [field.name, field]));
    expect(fields.obs).toMatchObject({ dtype: "<f8", shape: [2, 2] });
    expect([0, 8, 16, 24].map((at) => fields.obs?.data.readDoubleLE(at))).toEqual([2, 4, 2, 6]);

    const crashed = await server.post(`${path}/step`, { seq: 3, actions: [1, 9, 1] });
    expect(crashed.json).toMatchObject({ failed: [1], rewards: [1, 0, 1], truncated: [false, true, false] });
    expect(crashed.json.obs).toEqual([[3, 1], null, [3, 1]]);
    expect(crashed.json.infos).toMatchObject([{}, { sandpool_error: { kind: "crash", exit_code: 3 } }, {}]);
    const reset = await server.post(`${path}/reset`, { seq: 4, where: [1] });
    expect(reset.json.obs).toEqual([[0, -1]]);

    const called = await server.post(`${path}/call`, { seq: 5, name: "render", args: [1.5] });
    expect(called.json.results).toEqual(Array.from({ length: 3 }, () => ["render", [1.5]]));
    expect((await server.send({ path: `${path}/observations` })).json.obs).toEqual([
      [3, 1],
      [0, -1],
      [3, 1],
    ]);
    const status = await server.send({ path: `${path}?memory=true` });
    expect(Compile(PoolReply).Errors(status.json)).toEqual([]);
    const metrics = (await server.send({ path: "/metrics" })).bytes.toString();
    expect(metrics).toContain('sandpool_failures_total{kind="crash"} 1');

    expect((await server.send({ method: "DELETE", path })).json.closed).toBe(true);
    expect((await server.post(`${path}/step`, { seq: 6, actions: [1, 1, 1] })).json.error?.code).toBe("pool_closed");
  });
});
