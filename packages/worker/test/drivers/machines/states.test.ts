import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { MachineNetwork } from "../../../src/drivers/machine.ts";
import { fork, quiet, restore, statePlace } from "./states-support.ts";
import { Guest, LIMIT_MS, machineLeftovers, machineSpec, makeMachineHost, startGuest } from "./support.ts";

const RESIDENT = readFileSync(fileURLToPath(new URL("../fixtures/resident.py", import.meta.url)), "utf8");
const host = makeMachineHost("gvisor");
const probe = await host.driver.probeMachines();
if (!probe.available) {
  console.log(`skipped: states of machines: ${probe.reason} (${probe.hint})`);
  if (process.env.SANDPOOL_REQUIRE_ROOT === "1") test("states of machines", () => expect(probe.reason).toBeNull());
}

type Counts = Record<string, number>;

async function ask(guest: Guest, what: "check" | "drawn"): Promise<string> {
  return (await guest.run(["/usr/bin/python3", "-c", RESIDENT, what])).trim();
}

/** How far each resident program is; it has moved on while this looked. */
async function check(guest: Guest): Promise<Counts> {
  return JSON.parse(await ask(guest, "check")) as Counts;
}

async function startResident(): Promise<Guest> {
  const guest = await startGuest(host, { hostname: "source", memoryBytes: 1024 * 2 ** 20 });
  await guest.start(["/usr/bin/python3", "-c", RESIDENT, "run"], { timeout_ms: null });
  await check(guest);
  return guest;
}

function expectLater(later: Counts, earlier: Counts): void {
  for (const [name, value] of Object.entries(earlier)) expect(later[name]).toBeGreaterThan(value);
}

describe.skipIf(!probe.available)("states of machines", { timeout: 4 * LIMIT_MS }, () => {
  const { driver } = host;
  const spec = { memoryBytes: 1024 * 2 ** 20 };

  afterEach(async () => {
    for (const id of await driver.list()) await driver.remove(id);
    expect(await machineLeftovers(host)).toEqual([]);
  });
  afterAll(() => host.remove());

  test("row 42, row 49: two copies, a copy of a copy and the source go on from one instant, with whole files, databases, connections and trees", async () => {
    const source = await startResident();
    const before = await check(source);
    const folder = statePlace(host);
    const { manifest } = await driver.checkpoint(source.id, folder, quiet(source), { parent: null });
    expect(manifest).toMatchObject({ version: 1, machine: source.id, image: "host", parent: null });
    const one = await restore(host, folder, { spec });
    const two = await restore(host, folder, { spec });
    const three = await fork(host, one.guest, spec, 1);
    for (const guest of [source, one.guest, two.guest, three.guest]) expectLater(await check(guest), before);
    const drawn = [];
    for (const guest of [source, one.guest, two.guest, three.guest]) drawn.push(await ask(guest, "drawn"));
    // Seeded before the instant: a resident program's generator is its own state.
    expect(new Set(drawn)).toEqual(new Set(["0.32383276483316237"]));
    await one.guest.shell("echo mine >/srv/mine");
    expect(await two.guest.shell("ls /srv")).toBe("resident\n");
    expect(await source.shell("ls /srv")).toBe("resident\n");
  });

  test("rows 37 and 44: what is written between pauses stays, cycle after cycle; a paused machine's state is written without waking it", async () => {
    const source = await startResident();
    let before = await check(source);
    for (let cycle = 0; cycle < 3; cycle += 1) {
      await source.shell(`echo ${cycle} >>/srv/cycles`);
      await source.channel.ask({ op: "quiesce" });
      await driver.pause(source.id);
      await driver.pause(source.id);
      expect((await driver.resume(source.id)).awayMs).toBeGreaterThanOrEqual(0);
      await source.channel.ask({ op: "thaw", generation: 0, copy: false });
      const after = await check(source);
      expectLater(after, before);
      before = after;
    }
    await source.channel.ask({ op: "quiesce" });
    await driver.pause(source.id);
    const folder = statePlace(host);
    const { pausedMs } = await driver.checkpoint(source.id, folder, quiet(source), { parent: null });
    expect(pausedMs).toBe(0);
    const copy = await restore(host, folder, { spec });
    expect(await copy.guest.shell("cat /srv/cycles")).toBe("0\n1\n2\n");
    expectLater(await check(copy.guest), before);
    // Still asleep: a server that adopts it wakes it.
    const woken = await host.restart().adopt(source.id);
    if (!("socket" in woken)) throw new Error("the machine has ended");
    expectLater(await check(new Guest(woken)), before);
  });

  test("in place: the machine is what it was, with its id, its execs and a higher generation", async () => {
    const source = await startResident();
    const before = await check(source);
    const exec = await source.start(["/bin/sleep", "1000"]);
    const folder = statePlace(host);
    await driver.checkpoint(source.id, folder, quiet(source), { parent: null });
    await source.shell("echo lost >/srv/lost");
    await driver.remove(source.id);
    const again = await restore(host, folder, { generation: 5, copy: false, spec: { ...spec, id: source.id } });
    expectLater(await check(again.guest), before);
    expect(await again.guest.shell("ls /srv; cat /run/sandpool/generation")).toBe("resident\n5\n");
    const { execs } = (await again.guest.channel.ask({ op: "exec.list" })).head;
    expect(execs).toContainEqual(expect.objectContaining({ id: exec, state: "running" }));
    const later = await restore(host, folder, { generation: 6, spec });
    expect(await later.guest.shell("cat /run/sandpool/generation")).toBe("6\n");
  });

  test("a running exec goes on in the source; in the copy it is detached, with the output so far and what follows", async () => {
    const source = await startGuest(host);
    const lines = Array.from({ length: 300 }, (_, at) => `${at + 1}\n`).join("");
    const script =
      "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; [ $i = 100 ] && echo >/srv/half; sleep 0.01; done";
    const exec = await source.start(["/bin/sh", "-c", script]);
    await source.shell("until [ -e /srv/half ]; do sleep 0.02; done");
    const waiting = source.channel.ask({ op: "exec.wait", id: exec, collect: true });
    const copy = await fork(host, source);
    const listed = (await copy.guest.channel.ask({ op: "exec.list" })).head.execs as { id: string; state: string }[];
    expect(listed.find(({ id }) => id === exec)).toMatchObject({ state: "detached", exit_code: null });
    const attached = await copy.guest.channel.ask({
      op: "exec.attach",
      id: exec,
      stdout: 1,
      stderr: null,
      from: "start",
    });
    expect(attached.head).toMatchObject({ state: "detached" });
    expect((attached.head.kept as { stdout: { head: number } }).stdout.head).toBeGreaterThanOrEqual(290);
    const inCopy = await copy.guest.channel.ask({ op: "exec.wait", id: exec, collect: true });
    for (const { head, body } of [await waiting, inCopy]) {
      expect(head).toMatchObject({ exit_code: 0, timed_out: false, state: "exited" });
      expect(body.toString()).toBe(lines);
    }
  });

  test("row 43, row 44: a deadline is not reached by the time a machine stood still, and the wall clock is right", async () => {
    const source = await startGuest(host);
    const argv = ["/bin/sh", "-c", "until [ -e /srv/go ]; do sleep 0.02; done"];
    const exec = await source.start(argv, { timeout_ms: 6000 });
    await source.channel.ask({ op: "quiesce" });
    await driver.pause(source.id);
    const folder = statePlace(host);
    await driver.checkpoint(source.id, folder, quiet(source), { parent: null, transient: true });
    await sleep(6500);
    await driver.resume(source.id);
    await source.channel.ask({ op: "thaw", generation: 0, copy: false });
    const copy = await restore(host, folder);
    for (const guest of [source, copy.guest]) {
      const told = Number(await guest.shell("date +%s; echo >/srv/go"));
      expect(Math.abs(told - Date.now() / 1000)).toBeLessThan(10);
      const { head } = await guest.channel.ask({ op: "exec.wait", id: exec, collect: false });
      expect(head).toMatchObject({ exit_code: 0, timed_out: false });
    }
  });

  test("rows 45, 46 and 47: a copy has its own name, machine id, generation and randomness, and runs the programs of fork.d", async () => {
    const source = await startGuest(host, { hostname: "source" });
    const hooks = "mkdir -p /etc/sandpool/fork.d; cd /etc/sandpool/fork.d";
    const write = (name: string, text: string): string => `printf '#!/bin/sh\\n${text}\\n' >${name}; chmod 755 ${name}`;
    const first = write("10-first", "echo one $SANDPOOL_GENERATION $SANDPOOL_MACHINE >>/srv/hooks");
    const second = write("20-second", "echo two >>/srv/hooks; exit 3");
    await source.shell(`${hooks}; ${first}; ${second}; echo no >30-no-program`);
    await source.channel.ask({ op: "quiesce" });
    await source.channel.ask({ op: "thaw", generation: 0, copy: false });
    const folder = statePlace(host);
    await driver.checkpoint(source.id, folder, quiet(source), { parent: null });
    const copies = [];
    for (const hostname of ["one", "two"]) copies.push(await restore(host, folder, { spec: { hostname } }));
    for (const [index, { guest, connection, machineId }] of copies.entries()) {
      const identity = await guest.shell("hostname; cat /etc/machine-id /run/sandpool/generation /srv/hooks");
      expect(identity).toBe(`${["one", "two"][index]}\n${machineId}\n1\none 1 ${guest.id}\ntwo\n`);
      expect(connection.restored.hooks).toEqual([
        { name: "10-first", exit_code: 0 },
        { name: "20-second", exit_code: 3 },
      ]);
      expect(connection.restored.warnings).toEqual([expect.stringContaining("20-second ended with exit status: 3")]);
    }
    expect(await source.shell("hostname; ls /srv")).toBe("source\n");
    const program =
      "import os, random, secrets, uuid; print(os.urandom(8).hex(), random.random(), secrets.token_hex(8), uuid.uuid4())";
    const draws = [];
    for (const guest of [source, ...copies.map((copy) => copy.guest)]) {
      draws.push(...(await guest.run(["/usr/bin/python3", "-c", program])).trim().split(" "));
      draws.push(await guest.shell("head -c 8 /dev/urandom | od -An -tx1"));
    }
    expect(new Set(draws).size).toBe(15);
  });

  test("a machine that began with a saved disk has copies too", async () => {
    const first = await startGuest(host);
    await first.shell("echo kept >/srv/kept");
    const file = `${host.dataDir}/saved`;
    await driver.saveDisk(first.id, file);
    const { id } = machineSpec();
    await driver.prepare(machineSpec({ id }), AbortSignal.timeout(LIMIT_MS));
    await driver.loadDisk(id, file);
    const copy = await fork(host, new Guest(await driver.launch(id)));
    expect(await copy.guest.shell("cat /srv/kept")).toBe("kept\n");
  });

  test("row 47, row 48: a copy's listener answers at the copy's own network, filled before it runs", async () => {
    const network = { kind: "own" } as const;
    const launched = machineSpec({ network });
    await driver.prepare(launched, AbortSignal.timeout(LIMIT_MS));
    const source = new Guest(await driver.launch(launched.id, undefined, (made) => addVeth(made, 0)));
    const server =
      "import socket, os\ns = socket.create_server(('', 8000))\nopen('/srv/ready', 'w')\nwhile True:\n c, _ = s.accept()\n c.sendall(socket.gethostname().encode())\n c.close()";
    await source.start(["/usr/bin/python3", "-c", server]);
    await source.shell("until [ -e /srv/ready ]; do sleep 0.02; done");
    const folder = statePlace(host);
    await driver.checkpoint(source.id, folder, quiet(source), { parent: null });
    const spec = machineSpec({ network, hostname: "copy" });
    const signal = AbortSignal.timeout(LIMIT_MS);
    await driver.prepareRestore(spec, signal, (made) => addVeth(made, 1));
    const copy = await driver.restore(
      spec.id,
      folder,
      { generation: 1, machineId: "0".repeat(32), copy: true },
      signal,
    );
    expect(await greeting("10.213.1.2")).toBe("copy");
    expect(await greeting("10.213.0.2")).toBe("box");
    copy.socket.destroy();
  });
});

/** The host's end is 10.213.n.1, the machine's 10.213.n.2. */
async function addVeth({ pid, path }: MachineNetwork, index: number): Promise<void> {
  const name = `sps${index}-${process.pid % 100_000}`;
  const ip = (...args: string[]): void => void execFileSync("ip", args);
  const inside = (...args: string[]): void => void execFileSync("nsenter", [`--net=${path}`, "ip", ...args]);
  ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", String(pid));
  ip("address", "add", `10.213.${index}.1/24`, "dev", name);
  ip("link", "set", name, "up");
  inside("address", "add", `10.213.${index}.2/24`, "dev", "eth0");
  inside("link", "set", "eth0", "up");
}

async function greeting(address: string): Promise<string> {
  const socket = connect({ host: address, port: 8000 });
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text;
}
