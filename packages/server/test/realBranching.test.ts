import { chmod } from "node:fs/promises";
import { decodeBatch, StateList } from "@sandpool/protocol";
import { createWorker, type Worker } from "@sandpool/worker";
import { Compile } from "typebox/compile";
import { expect, test } from "vitest";
import { putEntries } from "../../worker/test/fixtures/archive.ts";
import { environmentEntries } from "../../worker/test/fixtures/real-worker.ts";
import { POOL, startTestServer, type TestServer, temporaryFolder } from "./startTestServer.ts";

const BINARY = "application/vnd.sandpool.batch";

interface Branching {
  server: TestServer;
  path: string;
  /** Posts a batch with the next number. */
  batch(name: string, members: object): ReturnType<TestServer["post"]>;
}

async function startBranching(members: object = {}): Promise<Branching> {
  const dataDir = await temporaryFolder();
  await chmod(dataDir, 0o711);
  const worker: Worker = await createWorker({ dataDir, allowUnisolated: true });
  const server = await startTestServer({ dataDir, realWorker: worker });
  const archive = await putEntries(worker.archives, "local", await environmentEntries("branching"));
  const isolation = process.geteuid?.() === 0 ? "namespace" : "unisolated";
  const figures = { n: 4, shards: 1, memory: "256MiB", workspace: "16MiB", seed: 1, isolation };
  const made = await server.post("/v1/pools", { ...POOL, archive, ...figures, ...members });
  expect([made.status, made.json.error]).toEqual([201, undefined]);
  const path = `/v1/pools/${made.json.id}`;
  let seq = 0;
  const batch = async (name: string, request: object) => {
    const reply = await server.post(`${path}/${name}`, { seq: seq + 1, ...request });
    if (reply.status < 300) seq += 1;
    return reply;
  };
  return { server, path, batch };
}

test("fork, save, restore, list and drop over HTTP, in JSON", async () => {
  const { server, path, batch } = await startBranching();
  const stepped = (await batch("step", { actions: [1, 2, 3, 4] })).json.obs as number[][];
  const forked = await batch("fork", { pairs: [[1, 3]], reseed: null });
  expect(forked.json).toMatchObject({ seq: 2, obs: [stepped[1]], failed: [], reseeded: [null] });
  const saved = await batch("states", { where: [3, 0] });
  expect(saved.status).toBe(201);
  const states = saved.json.states as { id: string; row: number }[];
  expect(states.map(({ row }) => row)).toEqual([0, 3]);
  await batch("step", { actions: [1, 1, 1, 1] });
  const [first, last] = states.map(({ id }) => id);
  const restored = await batch("restore", {
    pairs: [
      [last, 0],
      [first, 1],
    ],
    reseed: [7, null],
  });
  expect(restored.json).toMatchObject({ obs: [stepped[1], stepped[0]], reseeded: [expect.any(Array), null] });
  const listed = (await server.send({ path: `${path}/states?memory=true` })).json;
  expect(Compile(StateList).Errors(listed)).toEqual([]);
  expect(listed.states).toMatchObject([{ id: first }, { id: last }]);
  const dropped = await server.send({
    method: "DELETE",
    path: `${path}/states`,
    body: JSON.stringify({ states: [first] }),
  });
  expect(dropped.json).toEqual({ dropped: [first] });
  const gone = await batch("restore", { pairs: [[first, 0]] });
  expect([gone.status, gone.json.error?.code, gone.json.error?.details]).toEqual([
    404,
    "state_not_found",
    { states: [first] },
  ]);
  expect((await batch("step", { actions: [0, 0, 0, 0] })).json.failed).toEqual([]);
});

test("fork and restore answer in binary, and a repeated number gets the kept reply", async () => {
  const { server, path, batch } = await startBranching();
  const obs = (await batch("step", { actions: [5, 6, 7, 8] })).json.obs as number[][];
  const body = JSON.stringify({
    seq: 2,
    pairs: [
      [3, 0],
      [3, 2],
    ],
    reseed: 9,
  });
  const send = () => server.send({ method: "POST", path: `${path}/fork`, body, headers: { accept: BINARY } });
  const first = await send();
  const { map, fields } = decodeBatch(first.bytes);
  expect(map).toMatchObject({ seq: 2, rows: 2, failed: [], reseeded: [expect.any(Array), expect.any(Array)] });
  const column = fields.find(({ name }) => name === "obs");
  expect([0, 8, 16, 24].map((at) => column?.data.readDoubleLE(at))).toEqual([
    ...(obs[3] as number[]),
    ...(obs[3] as number[]),
  ]);
  expect((await send()).bytes.equals(first.bytes)).toBe(true);
});

test("a refusal says what stands in the way, changes nothing and leaves the number free", async () => {
  const { batch } = await startBranching();
  await batch("reset", { where: [2], options: { thread: true } });
  const refused = await batch("fork", { pairs: [[2, 0]] });
  expect([refused.status, refused.json.error?.code]).toEqual([422, "fork_unsupported"]);
  const { sources } = (refused.json.error?.details ?? {}) as { sources?: unknown[] };
  expect(sources).toEqual([{ row: 2, blockers: expect.any(Array), text: expect.stringMatching(/threads: /) }]);
  const stepped = await batch("step", { actions: [1, 1, 1, 1] });
  expect(stepped.json).toMatchObject({ seq: 2, failed: [] });
});

test("a client that goes away during a save finds its states under the same number", async () => {
  const { server, path } = await startBranching();
  const body = JSON.stringify({ seq: 1, where: null });
  const aborting = new AbortController();
  const lost = fetch(`${server.running.url}${path}/states`, {
    method: "POST",
    body,
    signal: aborting.signal,
    headers: { "content-type": "application/json", authorization: `Bearer ${server.running.key}` },
  });
  const outcome = expect(lost).rejects.toThrow();
  setImmediate(() => aborting.abort());
  await outcome;
  const again = await server.send({ method: "POST", path: `${path}/states`, body });
  expect(again.status).toBe(201);
  expect((await server.send({ path: `${path}/states` })).json.states).toEqual(again.json.states);
});

test("each fork, save, restore and drop has its audit line, also one that was refused; the metrics count saved states", async () => {
  const { server, path, batch } = await startBranching();
  await batch("fork", { pairs: [[0, 1]] });
  const save = { seq: 2, where: [0, 2] };
  const ids = ((await batch("states", save)).json.states as { id: string }[]).map(({ id }) => id);
  await server.post(`${path}/states`, save);
  const metrics = async () => (await server.send({ path: "/metrics" })).bytes.toString();
  expect(await metrics()).toContain("sandpool_saved_states 2\n");
  await batch("restore", { pairs: [[ids[0], 3]] });
  const drop = (states: unknown) =>
    server.send({ method: "DELETE", path: `${path}/states`, body: JSON.stringify({ states }) });
  await drop([ids[0], "st_unknown"]);
  await batch("restore", { pairs: [[ids[0], 3]] });
  const text = await metrics();
  expect(text).toContain("sandpool_saved_states 1\n");
  expect(text).toContain('sandpool_operations_total{kind="pool.restore",result="failed"} 1');
  const id = path.split("/").at(-1);
  const lines = server.logLines
    .map((line) => (JSON.parse(line) as { audit?: Record<string, unknown> }).audit)
    .filter((audit) => audit !== undefined);
  expect(lines.map(({ kind, object_id, state, error_code }) => [kind, object_id === id, state, error_code])).toEqual(
    expect.arrayContaining([
      ["pool.fork", true, "done", null],
      ["pool.save", true, "done", null],
      ["pool.restore", true, "done", null],
      ["pool.drop", true, "done", null],
      ["pool.restore", true, "failed", "state_not_found"],
    ]),
  );
  expect(lines.find(({ kind }) => kind === "pool.fork")).toMatchObject({ owner: "local", key_id: expect.any(String) });
  await server.send({ method: "DELETE", path });
  expect(await metrics()).toContain("sandpool_saved_states 0\n");
});
