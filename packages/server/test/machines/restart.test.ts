import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { createWorker } from "@sandpool/worker";
import { describe, expect, test, vi } from "vitest";
import { until } from "../startTestServer.ts";
import { ChildServer, keyOf, machinesFolder } from "./child.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

const BOX = { driver: "namespace", isolated: true };

/** Machines of a folder that hold anything on the host. */
async function held(dataDir: string): Promise<string[]> {
  const worker = await createWorker({ dataDir });
  const ids = await worker.machines.list();
  await worker.close();
  return ids;
}

/** What tells of a data folder outside of it. */
function traces(dataDir: string): string[] {
  const key = keyOf(dataDir);
  const mounts = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes(key) || line.includes(`${dataDir}/machines`));
  const folder = `/run/sandpool/${key}/machines`;
  const left = existsSync(folder) ? readdirSync(folder) : [];
  const processes = spawnSync("pgrep", ["-f", `/run/sandpool/${key}/machines`], { encoding: "utf8" }).stdout.trim();
  return [...mounts, ...left, ...(processes === "" ? [] : processes.split("\n"))];
}

describe("row 33: a server that was killed", () => {
  test("finds its machines again: programs ran on, and calls that come too early wait", async () => {
    const dataDir = await machinesFolder();
    const first = await ChildServer.start(dataDir);
    await first.send("POST", "/v1/machines", { ...BOX, name: "kept", labels: { a: "b" } });
    await first.send("POST", "/v1/machines/kept/exec", {
      command: "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; sleep 0.01; done",
      detach: true,
    });
    await first.run("kept", "until [ -s /tmp/count ]; do sleep 0.01; done");
    const before = Number(await first.run("kept", "cat /tmp/count"));
    await first.end("SIGKILL");
    const second = await ChildServer.start(dataDir, first);
    expect(Number(await second.run("kept", "cat /tmp/count"))).toBeGreaterThan(before);
    expect(await second.list()).toMatchObject([{ name: "kept", state: "running", labels: { a: "b" } }]);
    const deleted = await second.send("DELETE", "/v1/machines/kept");
    expect(deleted.body).toMatchObject({ deleted: true });
    await second.end("SIGTERM");
    expect(traces(dataDir)).toEqual([]);
  });

  test("finds one that ended meanwhile stopped, with its disk as it was saved", async () => {
    const dataDir = await machinesFolder();
    const first = await ChildServer.start(dataDir);
    const { id } = (await first.send("POST", "/v1/machines", { ...BOX, name: "box" })).body;
    await first.run("box", "echo saved > /root/word");
    await first.send("POST", "/v1/machines/box/stop");
    await first.send("POST", "/v1/machines/box/start");
    await first.run("box", "echo lost > /root/word");
    await first.end("SIGKILL");
    const { pid } = JSON.parse(readFileSync(`/run/sandpool/${keyOf(dataDir)}/machines/${id}/sandbox.json`, "utf8"));
    process.kill(pid, "SIGKILL");
    const second = await ChildServer.start(dataDir, first);
    await until(async () => (await second.list())[0]?.state === "stopped");
    const [machine] = await second.list();
    expect(machine).toMatchObject({ state: "stopped", reason: "crashed" });
    expect(machine?.disk_saved_at).not.toBeNull();
    const refused = await second.send("POST", "/v1/machines/box/exec", { command: "true" });
    expect([refused.status, refused.body.error?.code]).toEqual([409, "machine_state"]);
    expect(refused.body.error?.message).toContain("stopped (crashed)");
    expect((await second.send("POST", "/v1/machines/box/start")).body).toMatchObject({
      state: "running",
      reason: null,
    });
    expect(await second.run("box", "cat /root/word")).toBe("saved\n");
    await second.send("DELETE", "/v1/machines/box");
    await second.end("SIGTERM");
    expect(traces(dataDir)).toEqual([]);
  });

  test("after a boot of the host its machines are stopped and say so", async () => {
    const dataDir = await machinesFolder();
    const first = await ChildServer.start(dataDir);
    const { id } = (await first.send("POST", "/v1/machines", { ...BOX, name: "box" })).body;
    await first.end("SIGKILL");
    const worker = await createWorker({ dataDir });
    await worker.machines.remove(String(id));
    await worker.close();
    const store = new DatabaseSync(join(dataDir, "sandpool.sqlite"));
    store.exec("UPDATE machines SET boot_id = 'an earlier one'");
    store.close();
    const second = await ChildServer.start(dataDir, first);
    await until(async () => (await second.list())[0]?.state === "stopped");
    expect(await second.list()).toMatchObject([{ reason: "host_restarted", disk_saved_at: null }]);
    expect((await second.send("POST", "/v1/machines/box/start")).body).toMatchObject({ state: "running" });
    await second.end("SIGUSR2");
    expect(await held(dataDir)).toEqual([]);
  });
});

test("row 32, 36: killed at any moment of a create, a server leaves one machine of a key, or nothing", async () => {
  const dataDir = await machinesFolder();
  let server = await ChildServer.start(dataDir);
  for (const [round, delayMs] of [0, 30, 80, 160].entries()) {
    const key = { "idempotency-key": `round-${round}` };
    const request = { ...BOX, name: `box-${round}` };
    const cut = server.send("POST", "/v1/machines", request, key).catch(() => null);
    await sleep(delayMs);
    await server.end("SIGKILL");
    await cut;
    server = await ChildServer.start(dataDir, server);
    const again = await server.send("POST", "/v1/machines", request, key);
    expect([round, again.status, again.body.name]).toEqual([round, 201, `box-${round}`]);
    expect((await server.list()).map(({ name }) => name)).toEqual([`box-${round}`]);
    expect(await server.run(`box-${round}`, "echo works")).toBe("works\n");
    expect((await server.send("DELETE", `/v1/machines/box-${round}`)).status).toBe(200);
  }
  await server.end("SIGTERM");
  expect(await held(dataDir)).toEqual([]);
  expect(traces(dataDir)).toEqual([]);
  expect(readdirSync(join(dataDir, "machines"))).toEqual([]);
});

test("row 32, 38: killed at any moment of a delete, stop or start, a server finishes or undoes it", async () => {
  const dataDir = await machinesFolder();
  let server = await ChildServer.start(dataDir);
  for (const [round, [verb, delayMs]] of (
    [
      ["DELETE", 10],
      ["stop", 10],
      ["stop", 120],
      ["start", 60],
    ] as const
  ).entries()) {
    const name = `box-${round}`;
    await server.send("POST", "/v1/machines", { ...BOX, name });
    if (verb === "start") await server.send("POST", `/v1/machines/${name}/stop`);
    const [method, path] = verb === "DELETE" ? [verb, ""] : ["POST", `/${verb}`];
    const cut = server.send(method, `/v1/machines/${name}${path}`).catch(() => null);
    await sleep(delayMs);
    await server.end("SIGKILL");
    await cut;
    server = await ChildServer.start(dataDir, server);
    const settled = ["running", "stopped", undefined];
    await until(async () => settled.includes((await server.list())[0]?.state as string | undefined));
    const [machine] = await server.list();
    if (machine?.state === "stopped") await server.send("POST", `/v1/machines/${name}/start`);
    if (machine !== undefined) expect(await server.run(name, "echo works")).toBe("works\n");
    const gone = await server.send("DELETE", `/v1/machines/${name}`);
    expect([name, gone.body.deleted]).toEqual([name, true]);
  }
  await server.end("SIGTERM");
  expect(await held(dataDir)).toEqual([]);
  expect(traces(dataDir)).toEqual([]);
  expect(readdirSync(join(dataDir, "machines"))).toEqual([]);
});

test("row 32: what the host holds and no row knows is removed", async () => {
  const dataDir = await machinesFolder();
  const first = await ChildServer.start(dataDir);
  await first.send("POST", "/v1/machines", { ...BOX, name: "box" });
  await first.end("SIGKILL");
  const store = new DatabaseSync(join(dataDir, "sandpool.sqlite"));
  store.exec("DELETE FROM machines");
  store.close();
  const second = await ChildServer.start(dataDir, first);
  await until(() => traces(dataDir).length === 0);
  expect(await second.list()).toEqual([]);
  await second.end("SIGTERM");
});

test.each(["namespace", "gvisor"])(
  "%s: SIGTERM leaves machines running, SIGUSR2 stops them with their disks saved",
  async (driver) => {
    const dataDir = await machinesFolder();
    const first = await ChildServer.start(dataDir);
    await first.send("POST", "/v1/machines", { isolated: true, driver, name: "box" });
    await first.run("box", "echo word > /root/word");
    await first.end("SIGTERM");
    expect(await held(dataDir)).toHaveLength(1);
    const second = await ChildServer.start(dataDir, first);
    expect(await second.run("box", "cat /root/word")).toBe("word\n");
    await second.end("SIGUSR2");
    expect(traces(dataDir)).toEqual([]);
    const third = await ChildServer.start(dataDir, first);
    expect(await third.list()).toMatchObject([{ state: "stopped", reason: "stopped" }]);
    await third.send("POST", "/v1/machines/box/start");
    expect(await third.run("box", "cat /root/word")).toBe("word\n");
    await third.send("DELETE", "/v1/machines/box");
    await third.end("SIGTERM");
  },
);
