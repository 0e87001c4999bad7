import { readFileSync } from "node:fs";
import { MACHINE_SIZES } from "@sandpool/protocol";
import { describe, expect, test } from "vitest";
import { useMachines } from "../machineServer.ts";
import { until } from "../startTestServer.ts";
import { keyOf } from "./child.ts";

const server = useMachines({ limits: { diskSaveIntervalMs: 300, machineStopMs: 2_000 } });

async function call(method: string, path: string, value?: unknown) {
  const body = value === undefined ? {} : { body: JSON.stringify(value) };
  return server().api.send({ method, path: `/v1/machines/${path}`, ...body });
}

async function shown(name: string) {
  return (await call("GET", name)).json;
}

test.each(["namespace", "gvisor"])("%s: what was written is there again after stop and start", async (driver) => {
  const name = `kept-${driver}`;
  await server().newMachine({ name, driver, environment: { WORD: "w" }, labels: { for: driver } });
  const before = await shown(name);
  expect(before).toMatchObject({ state: "running", reason: null, driver, environment: ["WORD"], network: "isolated" });
  expect(before.size).toEqual({ vcpu: 1, memory: MACHINE_SIZES.small.memory, disk: MACHINE_SIZES.small.disk });
  // A program that writes on its way out is heard before the disk is saved.
  await server().exec(
    { command: "trap 'echo last > /root/last; exit' TERM; touch /root/up; while :; do sleep 0.05; done", detach: true },
    { machine: name },
  );
  await server().run(
    "until [ -e /root/up ]; do sleep 0.01; done; mkdir /root/d; echo $WORD > /root/d/word; chmod 4711 /root/d/word",
    name,
  );
  const stopped = await call("POST", `${name}/stop`);
  expect(stopped.json).toMatchObject({ state: "stopped", reason: "stopped", memory_bytes: null });
  expect(Date.parse(String(stopped.json.disk_saved_at))).toBeGreaterThan(Date.parse(String(before.created_at)));
  expect((await call("POST", `${name}/stop`)).status).toBe(200);
  const refused = await server().tryExec({ command: "true" }, { machine: name });
  expect([refused.status, refused.json.error?.code]).toEqual([409, "machine_state"]);
  expect(refused.json.error?.message).toMatch(/is stopped; .* running/);
  expect((await call("POST", `${name}/start`)).json).toMatchObject({ state: "running", reason: null });
  expect((await call("POST", `${name}/start`)).status).toBe(200);
  expect(await server().run("cat /root/d/word /root/last; stat -c %a%u /root/d/word", name)).toBe("w\nlast\n47110\n");
  expect((await call("DELETE", name)).json).toEqual({ id: before.id, deleted: true });
});

test("a delete works from every state, twice too, and frees the name", async () => {
  const creating = server().api.post("/v1/machines", { driver: "namespace", isolated: true, name: "gone" });
  await until(async () => (await shown("gone")).state === "creating");
  const cut = await call("DELETE", "gone");
  expect([(await creating).status, (await creating).json.error?.code]).toEqual([410, "machine_lost"]);
  expect(cut.json.deleted).toBe(true);
  const id = await server().newMachine({ name: "gone" });
  expect(id).not.toBe(cut.json.id);
  const stopping = call("POST", "gone/stop");
  await until(async () => (await shown("gone")).state !== "running");
  expect((await call("DELETE", "gone")).json).toEqual({ id, deleted: true });
  expect([200, 410]).toContain((await stopping).status);
  for (const name of [id, "gone"]) expect((await call("DELETE", name)).json).toEqual({ id, deleted: true });
  expect((await call("GET", id)).json.error?.code).toBe("machine_not_found");
  const used = await server().tryExec({ command: "true" }, { machine: id });
  expect([used.status, used.json.error?.code]).toEqual([410, "machine_lost"]);
  const third = await server().newMachine({ name: "gone" });
  await call("POST", "gone/stop");
  expect((await call("DELETE", third)).json.deleted).toBe(true);
  expect((await call("DELETE", "never-was")).json.error?.code).toBe("machine_not_found");
});

test("one that ends by itself is stopped, says why, and starts again", async () => {
  await server().newMachine({ name: "crash" });
  const found = server().api.send({ path: "/v1/machines/crash" });
  const { id } = (await found).json;
  await until(async () => (await shown("crash")).disk_saved_at !== null);
  const waiting = server().tryExec({ command: "sleep 1000" }, { machine: "crash" });
  const folder = `/run/sandpool/${keyOf(server().api.dataDir)}/machines/${id}`;
  await until(async () => (await call("GET", "crash/exec")).json.execs !== undefined);
  process.kill(JSON.parse(readFileSync(`${folder}/sandbox.json`, "utf8")).pid, "SIGKILL");
  expect((await waiting).status).toBeGreaterThanOrEqual(400);
  await until(async () => (await shown("crash")).state === "stopped");
  expect(await shown("crash")).toMatchObject({ reason: "crashed" });
  expect((await call("POST", "crash/start")).json).toMatchObject({ state: "running", reason: null });
  await call("DELETE", "crash");
});

test("the disk of a running machine is saved again and again", async () => {
  await server().newMachine({ name: "saved" });
  await until(async () => (await shown("saved")).disk_saved_at !== null);
  const first = Date.parse(String((await shown("saved")).disk_saved_at));
  await until(async () => Date.parse(String((await shown("saved")).disk_saved_at)) > first);
  expect((await shown("saved")).disk_save_interval).toBe(0.3);
  await call("DELETE", "saved");
});

test("row 29: thirty creates at once all get their machine, in turn", async () => {
  const names = Array.from({ length: 30 }, (_, index) => `burst-${index}`);
  const made = await Promise.all(
    names.map((name) => server().api.post("/v1/machines", { driver: "namespace", isolated: true, name })),
  );
  expect(made.map(({ status }) => status)).toEqual(names.map(() => 201));
  expect(new Set(made.map(({ json }) => json.id)).size).toBe(30);
  expect(await server().run("hostname", "burst-17")).toBe("burst-17\n");
  const deleted = await Promise.all(names.map((name) => call("DELETE", name)));
  expect(deleted.every(({ json }) => json.deleted === true)).toBe(true);
});

describe("a host that is short", () => {
  test("a size beyond it is capped, with a warning", async () => {
    const size = { vcpu: 1024, memory: "900TiB", disk: "20MiB" };
    const made = await server().api.post("/v1/machines", { driver: "namespace", isolated: true, name: "capped", size });
    expect(made.status).toBe(201);
    expect(made.json.warnings).toEqual([
      expect.stringMatching(/^vcpu is \d+, all this host has, not 1024$/),
      expect.stringMatching(/^memory is .*, all this host has, not 900TiB$/),
    ]);
    await call("DELETE", "capped");
  });
});
