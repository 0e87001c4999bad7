import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { MachineExit, ShimConnection } from "../../../src/drivers/machine.ts";
import { detectCgroups } from "../../../src/host/cgroups/detect.ts";
import { limitMemory } from "../../../src/host/cgroups/limit.ts";
import { hostFolders } from "../../../src/host/folders.ts";
import { runTool } from "../../../src/host/run.ts";
import {
  Guest,
  killProcess,
  LIMIT_MS,
  type MachineHost,
  machineFolder,
  machineLeftovers,
  machineSpec,
  makeMachineHost,
  pidOf,
  startGuest,
} from "./support.ts";

for (const name of ["namespace", "gvisor"] as const) {
  const host = makeMachineHost(name);
  const probe = await host.driver.probeMachines();
  if (!probe.available) {
    console.log(`skipped: machines of the ${name} driver: ${probe.reason} (${probe.hint})`);
    if (process.env.SANDPOOL_REQUIRE_ROOT === "1") test(`machines of ${name}`, () => expect(probe.reason).toBeNull());
  }

  describe.skipIf(!probe.available)(`machines of the ${name} driver`, { timeout: LIMIT_MS }, () => {
    const { driver } = host;
    const signal = (): AbortSignal => AbortSignal.timeout(LIMIT_MS);

    afterEach(async () => {
      for (const id of await driver.list()) await driver.remove(id);
      expect(await machineLeftovers(host)).toEqual([]);
    });
    afterAll(() => host.remove());

    test("the probe has started a container: it names the runtime and what it can", async () => {
      expect(probe).toMatchObject({ available: true, reason: null, fork: name === "gvisor" });
      expect(await driver.probeMachines()).toBe(probe);
    });

    test("machines start in any order, each with its own agent", async () => {
      const specs = ["first", "second"].map((hostname) => machineSpec({ hostname }));
      for (const spec of specs) await driver.prepare(spec, signal());
      const guests = await Promise.all(specs.toReversed().map(async ({ id }) => new Guest(await driver.launch(id))));
      expect(await Promise.all(guests.map((guest) => guest.shell("hostname")))).toEqual(["second\n", "first\n"]);
      expect((await driver.list()).toSorted()).toEqual(specs.map(({ id }) => id).toSorted());
      for (const guest of guests) expect(guest.connection.agent).toMatchObject({ ok: true, pid: 1 });
    });

    test("a program goes on without a server; the next one finds it, and its machine by name", async () => {
      const guest = await startGuest(host);
      const exec = await guest.start(["/bin/sleep", "1000"]);
      guest.connection.socket.destroy();
      const later = new Guest((await host.restart().adopt(guest.id)) as ShimConnection);
      expect(later.connection.shim).toMatchObject({ state: "running", pid: guest.connection.shim.pid });
      expect((await later.channel.ask({ op: "exec.list" })).head.execs).toMatchObject([{ id: exec, state: "running" }]);
    });

    test("the newest connection is the one: the older ends, and nothing of its frames comes to the newer", async () => {
      const guest = await startGuest(host);
      const unanswered = guest.shell("sleep 1000").catch((error: Error) => error);
      const later = new Guest((await driver.adopt(guest.id)) as ShimConnection);
      expect(await unanswered).toBeInstanceOf(Error);
      await guest.channel.ended;
      expect(await later.shell("echo here")).toBe("here\n");
    });

    test("a killed shim costs nothing but the exit code: the machine is adopted with its programs", async () => {
      const guest = await startGuest(host);
      await guest.start(["/bin/sleep", "1000"]);
      await killProcess(pidOf(host, guest.id, "shim.pid"));
      await guest.channel.ended;
      const later = new Guest((await driver.adopt(guest.id)) as ShimConnection);
      expect(await later.shell("hostname")).toBe("box\n");
      expect((await later.channel.ask({ op: "exec.list" })).head.execs).toContainEqual(
        expect.objectContaining({ state: "running" }),
      );
      await killProcess(pidOf(host, guest.id, "sandbox.json"));
      expect(await later.exited).toMatchObject({ started: true, code: null, signal: null });
    });

    test("a shim killed in the middle of frames both ways leaves a channel that works", async () => {
      const guest = await startGuest(host);
      for (let index = 0; index < 8; index += 1) {
        guest.shell(`head -c 300000 /dev/zero; true ${"x".repeat(60_000)}`).catch(() => undefined);
      }
      await killProcess(pidOf(host, guest.id, "shim.pid"));
      const later = new Guest((await driver.adopt(guest.id)) as ShimConnection);
      const zeros = createHash("sha256").update(Buffer.alloc(400_000)).digest("hex");
      const output = await later.shell("head -c 400000 /dev/zero");
      expect(createHash("sha256").update(output).digest("hex")).toBe(zeros);
    });

    test("the end of the sandbox is told and kept: SIGKILL from outside", async () => {
      const guest = await startGuest(host);
      await killProcess(pidOf(host, guest.id, "sandbox.json"));
      const expected = { code: null, signal: "KILL", oom_killed: false, started: true };
      expect(await guest.exited).toMatchObject(expected);
      expect(await driver.adopt(guest.id)).toMatchObject(expected);
    });

    test("a machine that is asked to stop ends with 0, its programs before it", async () => {
      const guest = await startGuest(host);
      await guest.start(["/bin/sleep", "1000"]);
      const reply = await guest.channel.ask({ op: "shim.stop", ms: 2000 });
      expect(reply.head).toMatchObject({ exit: { code: 0, signal: null }, left: [] });
      expect((await driver.adopt(guest.id)) as MachineExit).toMatchObject({ code: 0 });
    });

    test("the shim answers for itself, and refuses what it does not know", async () => {
      const guest = await startGuest(host);
      expect((await guest.channel.ask({ op: "shim.status" })).head).toMatchObject({ state: "running", exit: null });
      const state = await guest.channel.ask({ op: "shim.runtime", args: ["state", guest.id] });
      expect(JSON.parse(String(state.head.stdout))).toMatchObject({ id: guest.id, status: "running" });
      const failed = await guest.channel.ask({ op: "shim.runtime", args: ["state", "m00000000000000000000"] });
      expect(failed.head.code).not.toBe(0);
      expect(failed.head.stderr).not.toBe("");
      await expect(guest.channel.ask({ op: "shim.sing" })).rejects.toThrow(
        'received "shim.sing", expected shim.status',
      );
    });

    test("remove leaves nothing, from every state", async () => {
      const prepared = machineSpec();
      await driver.prepare(prepared, signal());
      await driver.remove(prepared.id);
      expect(await machineLeftovers(host)).toEqual([]);
      const states: ((guest: Guest) => Promise<unknown>)[] = [
        async () => undefined,
        async (guest) => guest.start(["/bin/sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000"]),
        async (guest) => killProcess(pidOf(host, guest.id, "sandbox.json")),
        async (guest) => killProcess(pidOf(host, guest.id, "shim.pid")),
        async (guest) => killProcess(pidOf(host, guest.id, "holder.json")),
        async (guest) => {
          for (const file of ["shim.pid", "holder.json"] as const) await killProcess(pidOf(host, guest.id, file));
        },
        async (guest) => {
          for (const file of ["shim.pid", "sandbox.json"] as const) await killProcess(pidOf(host, guest.id, file));
        },
        async (guest) => guest.channel.ask({ op: "shim.runtime", args: ["pause", guest.id] }),
      ];
      for (const [index, bring] of states.entries()) {
        const guest = await startGuest(host);
        await bring(guest);
        await Promise.all([driver.remove(guest.id), driver.remove(guest.id)]);
        expect({ state: index, left: await machineLeftovers(host) }).toEqual({ state: index, left: [] });
      }
      // Also of one that never was.
      await driver.remove(machineSpec().id);
    });

    test("an abort at any moment of prepare and launch leaves nothing", async () => {
      const moments = [0, 1, 2, 4, 8, 16, 32, 64, 128];
      for (const ms of moments) {
        const spec = machineSpec();
        const controller = new AbortController();
        setTimeout(() => controller.abort(new Error("enough")), ms);
        const done = driver.prepare(spec, controller.signal).then(() => driver.launch(spec.id, controller.signal));
        const outcome = await done.then(
          () => "ran",
          (error: Error) => error.message,
        );
        expect(["ran", "enough"]).toContain(outcome);
        await driver.remove(spec.id);
        expect({ ms, left: await machineLeftovers(host) }).toEqual({ ms, left: [] });
      }
    });

    test("a shim or a server killed at any moment of the start leaves what remove removes, or a machine that runs", async () => {
      for (const ms of [0, 10, 30, 60, 100, 150]) {
        const spec = machineSpec();
        await driver.prepare(spec, signal());
        const launched = driver.launch(spec.id).then(
          () => "ran",
          () => "failed",
        );
        await sleep(ms);
        const pid = readPid(host, spec.id);
        if (pid !== null) await killProcess(pid).catch(() => undefined);
        expect(["ran", "failed"]).toContain(await launched);
        await driver.remove(spec.id);
        expect({ ms, left: await machineLeftovers(host) }).toEqual({ ms, left: [] });
      }
      const fixture = fileURLToPath(new URL("launch-machine.ts", import.meta.url));
      for (const ms of [0, 20, 60, 120, 240, 480]) {
        const { id } = machineSpec();
        const server = spawn(process.execPath, [fixture, name, host.dataDir, id], {
          stdio: ["ignore", "pipe", "inherit"],
        });
        await once(server.stdout, "data");
        await sleep(ms);
        server.kill("SIGKILL");
        await once(server, "exit");
        const next = host.restart();
        if ((await next.list()).includes(id)) await next.adopt(id).catch(() => undefined);
        for (const left of await next.list()) await next.remove(left);
        expect({ ms, left: await machineLeftovers(host) }).toEqual({ ms, left: [] });
      }
    });

    test("a sandbox that the host ends for lack of memory says so", async () => {
      const guest = await startGuest(host);
      const { memory } = detectCgroups()?.controllers ?? {};
      expect(memory).toBeDefined();
      const folder = `${memory}/sandpool-${hostFolders(host.dataDir).key}/${guest.id}`;
      const used = Number(
        readFileSync(
          `${folder}/${existsSync(`${folder}/memory.max`) ? "memory.current" : "memory.usage_in_bytes"}`,
          "utf8",
        ),
      );
      await limitMemory(detectCgroups()?.version ?? 1, folder, used + 8 * 2 ** 20);
      const filler = "blocks = [bytearray(2**20) for _ in range(200)]; print(len(blocks))";
      const outcome = guest.run(["/usr/bin/python3", "-c", filler]).catch(() => "lost");
      // Under an ordinary kernel it ends the program; the machine lives on.
      if (name === "namespace") expect(await outcome).toBe("");
      else expect(await guest.exited).toMatchObject({ started: true, oom_killed: true });
    });

    test("a disk has its size and no byte more, and comes back in the next sandbox", async () => {
      const guest = await startGuest(host);
      const filled = await guest.shell("dd if=/dev/zero of=/var/fill bs=1M 2>&1; stat -c %s /var/fill; rm /var/fill");
      expect(filled).toContain("No space left on device");
      const bytes = Number(filled.trim().split("\n").at(-1));
      expect(bytes).toBeLessThanOrEqual(64 * 2 ** 20);
      // An ext4 has tables of its own.
      expect(bytes).toBeGreaterThanOrEqual((name === "gvisor" ? 64 : 56) * 2 ** 20);
      // Programs of the namespace driver have no capability, not even root's to give a file away.
      const owner = name === "gvisor" ? "12:34" : "0:0";
      await guest.shell(
        "echo kept >/root/kept; rm -r /srv; mkdir /opt/a; ln -s a /opt/b; chown 12:34 /root/kept; chmod 640 /root/kept",
      );
      const file = `${host.dataDir}/saved`;
      const saved = await driver.saveDisk(guest.id, file);
      expect(saved.bytes).toBe(statSync(file).size);
      expect(await guest.shell("echo still running")).toBe("still running\n");
      await driver.remove(guest.id);
      const spec = machineSpec();
      await driver.prepare(spec, signal());
      await driver.loadDisk(spec.id, file);
      const later = new Guest(await driver.launch(spec.id));
      expect(await later.shell("cat /root/kept; stat -c '%a %u:%g' /root/kept; readlink /opt/b; ls /srv 2>&1")).toBe(
        `kept\n640 ${owner}\na\nls: cannot access '/srv': No such file or directory\n`,
      );
    });

    test("a damaged saved disk is refused with the reason, and a failed save leaves the one before", async () => {
      const guest = await startGuest(host);
      const file = `${host.dataDir}/saved-once`;
      await driver.saveDisk(guest.id, file);
      const whole = readFileSync(file);
      await driver.remove(guest.id);
      await expect(driver.saveDisk(guest.id, file)).rejects.toMatchObject({ code: "machine_unknown" });
      expect(readFileSync(file).equals(whole)).toBe(true);
      expect(existsSync(`${file}.draft`)).toBe(false);
      const damaged = Buffer.from(whole);
      damaged[whole.length >> 1] = (damaged[whole.length >> 1] ?? 0) ^ 0xff;
      writeFileSync(file, damaged);
      const spec = machineSpec();
      await driver.prepare(spec, signal());
      await expect(driver.loadDisk(spec.id, file)).rejects.toMatchObject({ code: "sandbox_disk_failed" });
    });

    test("two machines see nothing of each other: no process, no host uid in common", async () => {
      const [one, other] = await Promise.all([startGuest(host), startGuest(host)]);
      await one.start(["/bin/sleep", "987654"]);
      expect(await one.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).toContain("sleep 987654");
      expect(await other.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).not.toContain("987654");
      const ids = [one, other].map((guest) => sandboxUid(guest.connection.shim.pid ?? 0));
      for (const id of ids) expect(id).toBeGreaterThanOrEqual(0x7000_0000);
      expect(new Set(ids.map((id) => Math.floor((id - 0x7000_0000) / 65_536))).size).toBe(2);
    });

    test("what an image's root owns is the machine's root's, and is not changed for others", async () => {
      const guest = await startGuest(host);
      expect(
        await guest.shell("stat -c '%U %a' /etc /root /tmp; echo 10.0.0.1 x >>/etc/hosts; tail -1 /etc/hosts"),
      ).toBe("root 755\nroot 700\nroot 1777\n10.0.0.1 x\n");
      const other = await startGuest(host);
      expect(await other.shell("tail -1 /etc/hosts")).not.toContain("10.0.0.1");
    });

    test("a network of its own is set up before anything runs, and goes with the machine", async () => {
      const spec = machineSpec({ network: { kind: "own" } });
      await driver.prepare(spec, signal());
      const connection = await driver.launch(spec.id, signal(), async ({ pid, path }) => {
        expect(existsSync(`${machineFolder(host, spec.id)}/sandbox.json`)).toBe(false);
        const host0 = `spt${process.pid % 100_000}`;
        await tool("ip", ["link", "add", host0, "type", "veth", "peer", "name", "eth0", "netns", String(pid)]);
        await tool("nsenter", [`--net=${path}`, "ip", "address", "add", "10.99.0.2/24", "dev", "eth0"]);
        await tool("nsenter", [`--net=${path}`, "ip", "link", "set", "eth0", "up"]);
      });
      const guest = new Guest(connection);
      expect(await guest.shell("cat /proc/net/dev")).toContain("eth0:");
      const serve =
        "import socket; s = socket.create_server(('10.99.0.2', 0)); socket.create_connection(s.getsockname()); print('met')";
      expect(await guest.run(["/usr/bin/python3", "-c", serve])).toBe("met\n");
      expect(await driver.findNetwork(spec.id)).toMatchObject({ path: expect.stringContaining("/ns/net") });
      const failed = machineSpec({ network: { kind: "own" } });
      await driver.prepare(failed, signal());
      await expect(driver.launch(failed.id, signal(), () => Promise.reject(new Error("no rules")))).rejects.toThrow(
        "no rules",
      );
      expect(await driver.list()).toEqual([spec.id]);
    });

    test("the last words of the agent and the runtime are kept, at most 256 KiB", async () => {
      const guest = await startGuest(host);
      await guest.shell(
        "i=0; while [ $i -lt 40 ]; do head -c 16384 /dev/zero | tr '\\0' x >/proc/1/fd/2; i=$((i+1)); done",
      );
      await guest.shell("echo the last words >/proc/1/fd/2");
      const logs = await driver.readLogs(guest.id);
      expect(logs.length).toBeLessThanOrEqual(256 * 1024);
      expect(logs.toString().endsWith("the last words\n")).toBe(name === "gvisor" || logs.length > 0);
    });

    test("a request that cannot be is refused before anything is made", async () => {
      const wrong = [{ id: "m../../etc" }, { id: "--help" }, { hostname: "a b" }, { diskBytes: 0 }, { vcpu: 0 }];
      for (const part of wrong) {
        await expect(driver.prepare(machineSpec(part), signal())).rejects.toMatchObject({
          code: "sandbox_spec_invalid",
        });
      }
      const spec = machineSpec();
      await driver.prepare(spec, signal());
      await expect(driver.prepare(spec, signal())).rejects.toThrow(`the machine id ${spec.id} is in use`);
      expect(existsSync(machineFolder(host, spec.id))).toBe(true);
      await expect(driver.adopt(machineSpec().id)).rejects.toMatchObject({ code: "machine_unknown" });
    });
  });
}

function readPid(host: MachineHost, id: string): number | null {
  try {
    return pidOf(host, id, "shim.pid");
  } catch {
    return null;
  }
}

async function tool(file: string, args: string[]): Promise<void> {
  const { code, stderr } = await runTool(file, args);
  if (code !== 0) throw new Error(`${file} ${args.join(" ")}: ${stderr}`);
}

function sandboxUid(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/status`, "latin1").match(/^Uid:\s+(\d+)/m)?.[1]);
}
