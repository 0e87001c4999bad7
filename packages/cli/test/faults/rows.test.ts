import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { leaks } from "./audit.ts";
import { FaultServer } from "./faultServer.ts";
import { expectNoLeaks, until } from "./round.ts";

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

let server: FaultServer;
beforeAll(async () => {
  server = await FaultServer.start();
});
afterEach(async () => {
  await server.start();
  for (const { id } of await server.client.machines.list()) await server.client.machines.delete(id);
});
afterAll(() => server?.remove());

interface Identity {
  pid: number;
  start_time: string;
  boot: string;
}

const BOX = { driver: "namespace", isolated: true } as const;

function identity(id: string, file: "shim.pid" | "sandbox.json" | "holder.json"): Identity {
  return JSON.parse(readFileSync(`${server.machines}/${id}/${file}`, "utf8")) as Identity;
}

/** As after a restore of the store from a backup: the host holds machines that no row knows. */
function forget(id: string): void {
  const store = new DatabaseSync(join(server.dataDir, "sandpool.sqlite"));
  store.prepare("DELETE FROM machines WHERE id = ?").run(id);
  store.close();
}

function innocent(): ChildProcess {
  const child = spawn("/bin/sleep", ["1000"], { stdio: "ignore" });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

describe.each(["namespace", "gvisor"] as const)("row 17: %s: an exec", (driver) => {
  test("that is accepted runs, also after a restart of the machine or of the server", async () => {
    const { machines } = server.client;
    const { id } = await machines.create({ name: "box", driver, isolated: true });
    const places = [
      async () => void (await machines.start((await machines.stop(id)).id)),
      () => server.restart("SIGTERM"),
      () => server.restart("SIGKILL"),
    ];
    for (const [place, restart] of places.entries()) {
      await restart();
      expect((await machines.exec(id, { command: `echo ${place} | tee -a /root/ran` })).stdout).toBe(`${place}\n`);
      const started = await machines.startExec(id, { command: `echo later ${place} >> /root/ran; exit 3` });
      expect(started.pid).toBeGreaterThan(1);
      expect(await machines.getExec(id, started.id, { waitSeconds: 60 })).toMatchObject({
        state: "exited",
        exitCode: 3,
      });
    }
    const ran = await machines.files.read(id, "/root/ran");
    expect(ran.toString()).toBe("0\nlater 0\n1\nlater 1\n2\nlater 2\n");
  });

  test("of a machine that is dead fails at once: what waits is told, what comes is refused", async () => {
    const { machines } = server.client;
    const { id } = await machines.create({ name: "box", driver, isolated: true });
    const stream = await machines.streamExec(id, { command: "echo up; sleep 1000" });
    const waiting = machines.exec(id, { command: "sleep 1000" }).catch((error: unknown) => error);
    for await (const { data } of stream) {
      expect(data.toString()).toBe("up\n");
      break;
    }
    process.kill(identity(id, "sandbox.json").pid, "SIGKILL");
    expect(await waiting).toMatchObject({ code: expect.stringMatching(/^machine_(lost|state)$/) });
    await expect(stream.wait()).rejects.toMatchObject({ code: "machine_lost" });
    await expect(machines.exec(id, { command: "true" })).rejects.toMatchObject({
      code: "machine_state",
      message: expect.stringContaining("stopped (crashed)"),
    });
  });
});

test("row 34: what is stuck from an earlier life holds nobody up: the server serves, and reclaims meanwhile", async () => {
  const { machines } = server.client;
  const [stuck, unknown, well] = await Promise.all(
    ["stuck", "unknown", "well"].map(async (name) => (await machines.create({ ...BOX, name })).id),
  );
  const held = [stuck, unknown].map((id) => identity(String(id), "shim.pid").pid);
  await server.end("SIGKILL");
  // A shim that does not move neither hands its machine over nor ends it.
  for (const pid of held) process.kill(pid, "SIGSTOP");
  forget(String(unknown));
  await server.start();
  expect((await machines.exec(String(well), { command: "echo works" })).stdout).toBe("works\n");
  await machines.create({ ...BOX, name: "new" });
  expect((await machines.exec("new", { command: "echo works" })).stdout).toBe("works\n");
  expect((await machines.list()).map(({ name }) => name).sort()).toEqual(["new", "stuck", "well"]);
  expect(leaks(server, []).some((text) => text.includes(String(unknown)))).toBe(true);
  for (const pid of held) process.kill(pid, "SIGCONT");
  expect((await machines.exec(String(stuck), { command: "echo works" })).stdout).toBe("works\n");
  const known = (await machines.list()).map(({ id }) => id);
  await expectNoLeaks(server, known, "once they move again");
});

test.each(["namespace", "gvisor"] as const)(
  "row 35: %s: a process that got a dead machine's number is left alone",
  async (driver) => {
    const { machines } = server.client;
    const { id } = await machines.create({ name: "box", driver, isolated: true });
    await server.end("SIGKILL");
    const files = (["shim.pid", "sandbox.json", "holder.json"] as const).filter((file) => {
      return existsSync(`${server.machines}/${id}/${file}`);
    });
    expect(files).toContain("shim.pid");
    const dead = files.map((file) => ({ file, was: identity(id, file) }));
    for (const { was } of dead) process.kill(was.pid, "SIGKILL");
    await until(async () => dead.filter(({ was }) => isRunning(was.pid)).map(({ file }) => file), "the kills");
    const others = dead.map(({ file, was }) => {
      const other = innocent();
      writeFileSync(`${server.machines}/${id}/${file}`, JSON.stringify({ ...was, pid: other.pid }));
      return other;
    });
    await server.start();
    await until(async () => ((await machines.list())[0]?.state === "stopped" ? [] : ["not stopped"]), "the restart");
    expect((await machines.get(id)).reason).toBe("crashed");
    await machines.start(id);
    expect((await machines.exec(id, { command: "echo works" })).stdout).toBe("works\n");
    await machines.delete(id);
    await expectNoLeaks(server, [], "after the delete");
    expect(others.map(({ exitCode, signalCode }) => [exitCode, signalCode])).toEqual(others.map(() => [null, null]));
  },
);

function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}
