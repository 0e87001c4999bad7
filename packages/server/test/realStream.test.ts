import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { decodeBatch, encodeBatch } from "@sandpool/protocol";
import { createWorker } from "@sandpool/worker";
import { expect, test } from "vitest";
import { startTestServer, type TestServer, temporaryFolder, until } from "./startTestServer.ts";
import { openStream, type StreamText, type TestSocket } from "./streamClient.ts";

/**
 * Counts its steps: the observation is [steps, last action], the reward the action. 9 ends the process, 8 the episode. An action that is a text
 * makes that file and, after a second text, waits for that one.
 */
const COUNTER = `
import json, os, sys, time
steps = 0
for line in sys.stdin:
    m = json.loads(line)
    reply = {"id": m["id"]}
    if m["op"] == "hello":
        reply.update(ok=True, protocol=1, features=[], rows=1)
    elif m["op"] == "reset":
        steps = 0
        reply.update(obs=[0.0, float(m["seed"] if m["options"] is None else m["options"]["start"])], info={"reset": True})
    elif m["op"] == "step":
        action = m["action"]
        if action == 9:
            sys.exit(3)
        if isinstance(action, list):
            made, awaited = action
            open(made, "w").close()
            while awaited and not os.path.exists(awaited):
                time.sleep(0.01)
            action = 0
        steps += 1
        reply.update(obs=[float(steps), float(action)], reward=float(action), terminated=action == 8)
    else:
        reply.update(ok=True)
    print(json.dumps(reply), flush=True)
    if m["op"] == "close":
        break
`;

/** An observation of 120,000 bytes, each of them the number of steps. */
const FRAMES = `
import base64, json, sys
steps = 0
for line in sys.stdin:
    m = json.loads(line)
    reply = {"id": m["id"]}
    if m["op"] in ("reset", "step"):
        steps = 0 if m["op"] == "reset" else steps + 1
        reply["obs"] = {"$nd": ["|u1", [400, 300], base64.b64encode(bytes([steps]) * 120000).decode()]}
    if m["op"] == "step":
        reply.update(reward=1.0, terminated=False)
    if m["op"] == "hello":
        reply.update(ok=True, protocol=1, features=[], rows=1)
    if m["op"] == "close":
        break
    print(json.dumps(reply), flush=True)
`;

const isolation = process.geteuid?.() === 0 ? "namespace" : "unisolated";

interface Setup {
  server: TestServer;
  poolId: string;
}

async function setUp(program: string, members: object = {}): Promise<Setup> {
  const dataDir = await temporaryFolder();
  await chmod(dataDir, 0o711);
  const server = await startTestServer({ dataDir, realWorker: await createWorker({ dataDir, allowUnisolated: true }) });
  const archive = await upload(server, program);
  const create = { archive, entry: "env.py", n: 3, isolation, start: "spawn", shards: 2, seed: 7, memory: "256MiB" };
  const made = await server.post("/v1/pools", { ...create, workspace: "16MiB", ...members });
  if (made.status !== 201) throw new Error(`create answered ${made.status}: ${made.bytes}`);
  return { server, poolId: String(made.json.id) };
}

async function upload(server: TestServer, program: string): Promise<string> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "env.py"), program);
  const body = zstdCompressSync(execFileSync("tar", ["--owner=0", "--group=0", "-cf", "-", "-C", folder, "env.py"]));
  const sha256 = createHash("sha256").update(body).digest("hex");
  const headers = { "content-type": "application/zstd" };
  await server.send({ method: "PUT", path: `/v1/archives/${sha256}`, body, headers });
  return sha256;
}

/** Results that a client has, one entry a row. */
function rowsOf(inbox: readonly StreamText[]): { row: number; op: string; reward: number; obs: unknown }[] {
  return inbox
    .filter(({ event }) => event === undefined)
    .flatMap(({ where = [], ops = [], rewards = [], obs }) =>
      where.map((row, at) => ({
        row,
        op: ops[at] as string,
        reward: rewards[at] as number,
        obs: (obs as unknown[])[at],
      })),
    );
}

function lastNumber(client: TestSocket): number {
  return client.inbox.findLast(({ event }) => event === undefined)?.number ?? 0;
}

test("rows go out and come back on their own, in turn with batches", async () => {
  const { server, poolId } = await setUp(COUNTER);
  const client = openStream(server, poolId);
  await until(() => client.inbox.length === 1);
  client.send({ number: 1, op: "reset", where: [2, 0], seed: 40, received: 0 });
  await until(() => rowsOf(client.inbox).length === 2);
  client.send({ number: 2, op: "step", where: [0, 2], actions: [5, 6.5], received: lastNumber(client) });
  client.send({ number: 3, op: "step", where: [1], actions: [8], received: lastNumber(client) });
  await until(() => rowsOf(client.inbox).length === 5);
  const done = rowsOf(client.inbox);
  const of = (row: number) =>
    done.filter((result) => result.row === row).map(({ op, reward, obs }) => [op, reward, obs]);
  expect(of(0)).toEqual([
    ["reset", 0, [0, 40]],
    ["step", 5, [1, 5]],
  ]);
  expect(of(2)).toEqual([
    ["reset", 0, [0, 42]],
    ["step", 6.5, [1, 6.5]],
  ]);
  expect(of(1)).toEqual([["step", 8, [1, 8]]]);
  const isEnd = ({ where, terminated }: { where?: number[]; terminated?: unknown }): boolean =>
    (terminated as boolean[] | undefined)?.[where?.indexOf(1) ?? -1] === true;
  expect(client.inbox.some(isEnd)).toBe(true);
  const batch = await server.post(`/v1/pools/${poolId}/step`, { seq: 1, actions: [1, 2, 3] });
  expect(batch.json.obs).toEqual([
    [2, 1],
    [2, 2],
    [2, 3],
  ]);
  client.send({ number: 4, op: "reset", where: [0], options: { start: 12 }, received: lastNumber(client) });
  await until(() => rowsOf(client.inbox).length === 6);
  expect(rowsOf(client.inbox).at(-1)).toEqual({ row: 0, op: "reset", reward: 0, obs: [0, 12] });
  await server.send({ method: "DELETE", path: `/v1/pools/${poolId}` });
  expect(await client.closed).toEqual({ code: 4410, reason: "pool_closed" });
});

test("a row that is slow holds no other, and a batch says how many are out", async () => {
  const { server, poolId } = await setUp(COUNTER, { isolation: "unisolated", step_timeout: 600 });
  const folder = await temporaryFolder();
  const [slow, go] = [join(folder, "slow"), join(folder, "go")];
  const client = openStream(server, poolId);
  await until(() => client.inbox.length === 1);
  client.send({ number: 1, op: "step", where: [0], actions: [[slow, go]] });
  await until(() => existsSync(slow));
  for (let number = 2; number < 5; number += 1) {
    client.send({ number, op: "step", where: [1, 2], actions: [number, number], received: lastNumber(client) });
    await until(() => rowsOf(client.inbox).length === 2 * (number - 1));
  }
  const batch = await server.post(`/v1/pools/${poolId}/step`, { seq: 1, actions: [1, 2, 3] });
  expect([batch.status, batch.json.error?.code, batch.json.error?.details.out]).toEqual([409, "pool_busy", 1]);
  client.send({ number: 5, op: "step", where: [1], actions: [[go, null]], received: lastNumber(client) });
  await until(() => rowsOf(client.inbox).length === 8);
  const places = rowsOf(client.inbox).map(({ row }) => row);
  expect(places.slice(0, 6).sort()).toEqual([1, 1, 1, 2, 2, 2]);
  expect(rowsOf(client.inbox).find(({ row }) => row === 0)?.obs).toEqual([1, 0]);
});

test("a row that crashes comes back with its error, and its reset waits for the replacement", async () => {
  const { server, poolId } = await setUp(COUNTER);
  const client = openStream(server, poolId);
  await until(() => client.inbox.length === 1);
  client.send({ number: 1, op: "step", where: [1], actions: [9] });
  await until(() => client.inbox.length === 2);
  const { failed, obs, truncated, infos } = client.inbox[1] as StreamText;
  expect({ failed, obs, truncated }).toEqual({ failed: [1], obs: [null], truncated: [true] });
  expect(infos).toMatchObject([{ sandpool_error: { kind: "crash", exit_code: 3 } }]);
  client.send({ number: 2, op: "step", where: [1], actions: [1], received: 1 });
  await until(() => client.inbox.length === 3);
  expect(client.inbox[2]?.infos).toMatchObject([{ sandpool_error: { kind: "crash", repeated: true } }]);
  client.send({ number: 3, op: "reset", where: [1], received: 2 });
  await until(() => client.inbox.length === 4);
  expect(client.inbox[3]).toMatchObject({ where: [1], ops: ["reset"], failed: [] });
});

test.runIf(isolation === "namespace")(
  "the rows of a sandbox that is killed come back, and it is there at their reset",
  async () => {
    const { server, poolId } = await setUp(COUNTER);
    const client = openStream(server, poolId);
    await until(() => client.inbox.length === 1);
    for (const pid of await agentPids(poolId)) process.kill(pid, "SIGKILL");
    client.send({ number: 1, op: "step", where: [0, 1, 2], actions: [1, 1, 1] });
    await until(() => rowsOf(client.inbox).length === 3);
    const failed = client.inbox.flatMap((message) => message.failed ?? []);
    expect(failed.sort()).toEqual([0, 1, 2]);
    client.send({ number: 2, op: "reset", where: [0, 1, 2], received: lastNumber(client) });
    await until(() => rowsOf(client.inbox).length === 6);
    expect(client.inbox.flatMap((message) => message.failed ?? [])).toHaveLength(3);
  },
);

test("in an autoreset mode the reset comes with the step that ended the episode", async () => {
  const { server, poolId } = await setUp(COUNTER, { autoreset: "same_step" });
  const client = openStream(server, poolId);
  await until(() => client.inbox.length === 1);
  client.send({ number: 1, op: "step", where: [2], actions: [8] });
  await until(() => client.inbox.length === 2);
  expect(client.inbox[1]).toMatchObject({ ops: ["step"], rewards: [8], terminated: [true] });
  expect(client.inbox[1]?.obs).toEqual([[0, expect.any(Number)]]);
  expect(client.inbox[1]?.infos).toMatchObject([{ final_obs: [1, 8] }]);
});

test("large arrays travel as one binary message, each row's where it belongs", async () => {
  const { server, poolId } = await setUp(FRAMES);
  const client = openStream(server, poolId, { protocol: "sandpool.batch" });
  await until(() => client.inbox.length === 1);
  const bytes = new Map<number, number[]>();
  client.socket.on("message", (data: Buffer, isBinary) => {
    if (isBinary) for (const [row, content] of frameBytes(data)) bytes.set(row, [...(bytes.get(row) ?? []), content]);
  });
  const data = Buffer.from(new Float32Array([1, 1, 1]).buffer);
  const field = { name: "actions", dtype: "<f4", shape: [3], data: [data] };
  for (let number = 1; number <= 3; number += 1) {
    const map = { number, op: "step", where: [0, 1, 2], received: lastNumber(client) };
    client.socket.send(Buffer.concat(encodeBatch(map, [field]).chunks));
    await until(() => [...bytes.values()].flat().length === 3 * number);
  }
  expect(Object.fromEntries(bytes)).toEqual({ 0: [1, 2, 3], 1: [1, 2, 3], 2: [1, 2, 3] });
});

test("a connection that breaks at any moment loses nothing, and no row steps twice", async () => {
  const { server, poolId } = await setUp(COUNTER);
  for (let moment = 1; moment <= 12; moment += 1) {
    const before = await server.send({ path: `/v1/pools/${poolId}/observations` });
    const steps = (before.json.obs as number[][]).map(([count]) => count as number);
    const results = await stepThrough(server, poolId, `cut ${moment}`, moment);
    for (const row of [0, 1, 2]) {
      const own = results.filter((result) => result.row === row).map(({ obs }) => obs);
      expect(own).toEqual([1, 2, 3].map((round) => [(steps[row] as number) + round, 10 * row + round]));
    }
  }
});

test("a server that stops tells who is still connected", async () => {
  const { server, poolId } = await setUp(COUNTER);
  const client = openStream(server, poolId);
  await until(() => client.inbox.length === 1);
  await server.running.close();
  expect((await client.closed).code).toBe(1001);
  expect(client.inbox.at(-1)).toMatchObject({ event: "error", error: { code: "pool_closed" } });
});

/** Three steps of every row; the connection is cut after so many messages in either direction, and taken up again. */
async function stepThrough(server: TestServer, poolId: string, session: string, cutAfter: number) {
  const encoded = encodeURIComponent(session);
  const sent = new Map<number, object>();
  const results: ReturnType<typeof rowsOf> = [];
  const asked = [0, 0, 0];
  let [received, left, number, seen] = [0, cutAfter, 0, 0];
  let client = openStream(server, poolId, { session: encoded });
  const isDone = (): boolean => results.length === 9;
  while (!isDone()) {
    for (const message of client.inbox.slice(seen)) {
      seen += 1;
      left -= 1;
      if (left === 0) break;
      if (message.event !== undefined || message.number !== received + 1) continue;
      received = message.number;
      results.push(...rowsOf([message]));
    }
    for (const row of [0, 1, 2]) {
      const done = results.filter((result) => result.row === row).length;
      if (asked[row] !== done || done === 3 || seen === 0) continue;
      asked[row] = done + 1;
      number += 1;
      left -= 1;
      sent.set(number, { number, op: "step", where: [row], actions: [10 * row + done + 1], received });
      client.send(sent.get(number) as object);
    }
    if (left <= 0) {
      client.socket.terminate();
      left = Number.POSITIVE_INFINITY;
      client = openStream(server, poolId, { session: encoded, received });
      seen = 0;
      await until(() => client.inbox.length > 0);
      const { accepted = 0 } = client.inbox[0] as StreamText;
      for (const [at, message] of sent) if (at > accepted) client.send(message);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  client.socket.terminate();
  await client.closed;
  await until(async () => (await trySession(server, poolId)) === 1);
  return results;
}

/** Whether the stream is free for another session: 1 if so. */
async function trySession(server: TestServer, poolId: string): Promise<number> {
  const probe = openStream(server, poolId, { session: "probe" });
  await until(() => probe.inbox.length > 0);
  const isFree = probe.inbox[0]?.event === "open";
  probe.socket.close();
  await probe.closed;
  return isFree ? 1 : 0;
}

/** The one byte value that each row's observation consists of. */
function frameBytes(message: Buffer): [number, number][] {
  const { map, fields } = decodeBatch(message);
  const observations = fields.find(({ name }) => name === "obs");
  return (map.where as number[]).map((row, at) => {
    const frame = observations?.data.subarray(at * 120_000, (at + 1) * 120_000) as Buffer;
    const [first = -1] = frame;
    return [row, frame.every((byte) => byte === first) ? first : -1];
  });
}

async function agentPids(poolId: string): Promise<number[]> {
  const mark = poolId.replaceAll("_", "-");
  const pids: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const groups = await readFile(`/proc/${name}/cgroup`, "utf8").catch(() => "");
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (groups.includes(mark) && command.startsWith("/sandpool/agent")) pids.push(Number(name));
  }
  return pids;
}
