import { describe, expect, test } from "vitest";
import { startTestServer, type TestServer, temporaryFolder, until } from "../startTestServer.ts";

const DAY_SECONDS = 24 * 3600;

async function shown(server: TestServer, name = "box") {
  return (await server.send({ path: `/v1/machines/${name}` })).json;
}

describe("a lifetime", () => {
  test("deletes the machine, and counts from its creation", async () => {
    const server = await startTestServer();
    const { json } = await server.post("/v1/machines", { name: "box", lifetime: 0.2 });
    expect(Date.parse(String(json.expires_at)) - Date.parse(String(json.created_at))).toBe(200);
    await until(async () => (await server.send({ path: "/v1/machines/box" })).status === 404);
    expect(server.worker.machines.held.size).toBe(0);
    expect(server.logLines.some((line) => line.includes('"key_id":"server","kind":"machine.delete"'))).toBe(true);
  });

  test("row 31: is not changed by reading, exec or a connection, only by asking", async () => {
    const server = await startTestServer();
    await server.post("/v1/machines", { name: "box", lifetime: DAY_SECONDS });
    const { expires_at: expiresAt, created_at: createdAt } = await shown(server);
    await server.send({ path: "/v1/machines" });
    await server.send({ path: "/v1/machines/box/logs" });
    await server.send({ path: "/v1/machines/box/files/list?path=/" });
    await server.post("/v1/machines/box/exec", { command: "true", detach: true });
    expect((await shown(server)).expires_at).toBe(expiresAt);
    const patch = (value: unknown) =>
      server.send({ method: "PATCH", path: "/v1/machines/box", body: JSON.stringify(value) });
    const later = await patch({ lifetime: 2 * DAY_SECONDS });
    expect(Date.parse(String(later.json.expires_at))).toBe(Date.parse(String(createdAt)) + 2 * DAY_SECONDS * 1000);
    expect((await patch({ lifetime: null })).json).toMatchObject({ lifetime: null, expires_at: null });
    await until(() => Date.now() > Date.parse(String(createdAt)) + 5);
    const past = await patch({ lifetime: 0.001 });
    expect([past.status, past.json.error?.code]).toEqual([400, "invalid_request"]);
  });
});

describe("a lease", () => {
  test("is put off by asking, by nothing else", async () => {
    const server = await startTestServer();
    await server.post("/v1/machines", { name: "box", lease: DAY_SECONDS });
    const before = String((await shown(server)).expires_at);
    await until(() => Date.now() > Date.parse(before) - DAY_SECONDS * 1000);
    await server.send({ path: "/v1/machines/box/logs" });
    expect((await shown(server)).expires_at).toBe(before);
    const renewed = await server.post("/v1/machines/box/lease", {});
    expect(String(renewed.json.expires_at) > before).toBe(true);
  });

  test("that runs out deletes the machine", async () => {
    const server = await startTestServer();
    await server.post("/v1/machines", { name: "box", lease: 0.2 });
    await until(async () => (await server.send({ path: "/v1/machines/box" })).status === 404);
    expect(server.worker.machines.held.size).toBe(0);
  });

  test("of a machine without one cannot be put off", async () => {
    const server = await startTestServer();
    await server.post("/v1/machines", { name: "box" });
    expect((await server.post("/v1/machines/box/lease", {})).json.error?.code).toBe("conflict");
  });

  test("begins anew with a new server: nobody could put it off meanwhile", async () => {
    const dataDir = await temporaryFolder();
    const first = await startTestServer({ dataDir });
    await first.post("/v1/machines", { name: "box", lease: DAY_SECONDS });
    const before = String((await shown(first)).expires_at);
    await first.running.close();
    await until(() => Date.now() > Date.parse(before) - DAY_SECONDS * 1000);
    const second = await startTestServer({ dataDir });
    const reply = await second.send({ path: "/v1/machines/box", key: first.running.key });
    expect(String(reply.json.expires_at) > before).toBe(true);
  });
});

test("row 21: a machine that the kernel ended for memory says so, and so does a refused call", async () => {
  const server = await startTestServer();
  const { id } = (await server.post("/v1/machines", { name: "box" })).json;
  server.worker.machines.held.get(String(id))?.finish("KILL", true);
  await until(async () => (await shown(server)).state === "stopped");
  expect(await shown(server)).toMatchObject({ reason: "out_of_memory" });
  const refused = await server.post("/v1/machines/box/exec", { command: "true" });
  expect(refused.json.error?.message).toContain("stopped (out_of_memory)");
  await until(() => server.logLines.some((line) => line.includes('"kind":"machine.out_of_memory"')));
});

test("names and labels change, are looked for, and a taken name is refused", async () => {
  const server = await startTestServer();
  await server.post("/v1/machines", { name: "a", labels: { team: "x" } });
  await server.post("/v1/machines", { name: "b" });
  const patch = (name: string, value: unknown) =>
    server.send({ method: "PATCH", path: `/v1/machines/${name}`, body: JSON.stringify(value) });
  expect((await patch("a", { name: "b" })).json.error?.code).toBe("name_taken");
  expect((await patch("b", { name: "c", labels: { team: "y", "a/b": "1=2" } })).json.name).toBe("c");
  const found = async (query: string) => {
    const { machines } = (await server.send({ path: `/v1/machines?${query}` })).json;
    return (machines as { name: string }[]).map(({ name }) => name);
  };
  expect(await found("label=team=x")).toEqual(["a"]);
  expect(await found("label=a/b=1%3D2")).toEqual(["c"]);
  expect(await found("label=team=y&label=a/b=no")).toEqual([]);
  expect(await found("state=stopped")).toEqual([]);
  expect((await server.send({ path: "/v1/machines?state=odd" })).status).toBe(400);
});

test("a log is plain text that no browser runs, and machines are counted by state", async () => {
  const server = await startTestServer();
  await server.post("/v1/machines", { name: "box" });
  const log = await server.send({ path: "/v1/machines/box/logs" });
  expect(log.bytes.toString("latin1").endsWith("\u001b[31m\xff")).toBe(true);
  expect(log.headers).toMatchObject({ "x-content-type-options": "nosniff", "content-security-policy": "sandbox" });
  await server.send({ method: "POST", path: "/v1/machines/box/stop" });
  const metrics = (await server.send({ path: "/metrics" })).bytes.toString();
  expect(metrics).toContain('sandpool_machines{state="stopped"} 1');
  expect(metrics).toContain('sandpool_machines{state="running"} 0');
  expect(metrics).toContain('sandpool_operations_total{kind="machine.create",result="done"} 1');
});
