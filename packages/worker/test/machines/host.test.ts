import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import type { Readable } from "node:stream";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { findAgent } from "../../src/agent/find.ts";
import type { MachineExit } from "../../src/drivers/machine.ts";
import { createMachineDriver } from "../../src/drivers/machines/create.ts";
import { transientMachines } from "../../src/drivers/machines/transient.ts";
import { detectCgroups } from "../../src/host/cgroups/detect.ts";
import { limitMemory } from "../../src/host/cgroups/limit.ts";
import type { LiveMachine } from "../../src/machines/contract.ts";
import { findMemoryGroup } from "../../src/machines/memory.ts";
import type { Networks } from "../../src/network/contract.ts";
import { createNetworks } from "../../src/network/networks.ts";
import { machineLeftovers } from "../drivers/machines/support.ts";
import {
  bytesOf,
  createOn,
  execOf,
  killProcess,
  LIMIT_MS,
  makeBench,
  pidOf,
  planOf,
  run,
  shell,
  textOf,
} from "./support.ts";

for (const name of ["namespace", "gvisor"] as const) {
  const bench = makeBench(name);
  const [probe] = await bench.host.probe();
  const isMissing = probe?.available !== true;
  const signal = (): AbortSignal => AbortSignal.timeout(LIMIT_MS);
  const leftovers = (): Promise<string[]> => machineLeftovers({ dataDir: bench.dataDir } as never);

  describe.skipIf(isMissing)(`machines of this host under ${name}`, { timeout: LIMIT_MS }, () => {
    afterEach(async () => {
      await bench.clear();
      expect(await leftovers()).toEqual([]);
    }, LIMIT_MS);
    afterAll(async () => {
      await bench.host.close();
      bench.remove();
    });

    test("row 33: the next server takes machines over, with their programs, outputs and waits", async () => {
      const plan = planOf(bench);
      const first = bench.next();
      const machine = await first.create(plan, { signal: signal() });
      const script = "echo before; read line; echo after $line; exit 6";
      const { id } = await machine.startExec(execOf(["/bin/sh", "-c", script], { stdin: true }));
      const waiting = machine.waitExec(id, { collect: false }).catch((error: unknown) => error);
      await first.close();
      expect(await waiting).toMatchObject({ code: "server_closing" });
      await expect(machine.statFile("/", {})).rejects.toMatchObject({ code: "server_closing" });

      const later = (await bench.host.adopt(plan)) as LiveMachine;
      expect(later).toMatchObject({ id: plan.id, startedAt: machine.startedAt, outerAddress: null });
      const attached = await later.attachExec(id, "start");
      expect(attached).toMatchObject({ state: { state: "running" }, dropped: { stdout: 0, stderr: 0 } });
      await later.writeExecInput(id, bytesOf("word\n"));
      expect(await textOf(attached.stdout)).toBe("before\nafter word\n");
      expect(await later.waitExec(id, { collect: false })).toMatchObject({ exitCode: 6 });
      expect(await bench.host.adopt(plan)).toBe(later);
    });

    test("what a host has nothing of is adopted as null; what has ended, as its end", async () => {
      const plan = planOf(bench);
      expect(await bench.host.adopt(plan)).toBeNull();
      const first = bench.next();
      await first.create(plan, { signal: signal() });
      await first.close();
      await killProcess(pidOf(bench, plan.id, "sandbox.json"));
      expect(await bench.host.adopt(plan)).toMatchObject({ started: true, signal: "KILL", oom_killed: false });
    });

    test("what a dead server left half made never ran, and is in nobody's way", async () => {
      const plan = planOf(bench);
      const { id, name: hostname, vcpu, memoryBytes, diskBytes, environ } = plan;
      await createMachineDriver(name, { dataDir: bench.dataDir, agentPath: findAgent() }).prepare(
        {
          ...{ id, hostname, vcpu, memoryBytes, diskBytes, environ, processes: 64 },
          ...{ image: { kind: "host" }, network: { kind: "none" } },
        },
        signal(),
      );
      expect(await bench.host.list()).toEqual([id]);
      expect(await bench.host.adopt(plan)).toMatchObject({ started: false });
      expect(await shell(await bench.host.create(plan, { signal: signal() }), "echo new")).toBe("new\n");
    });

    test("a machine with a network finds its name and its name server, and keeps both when it is taken over", async () => {
      const networks = createNetworks({ dataDir: bench.dataDir, allowed: [] });
      const problem = await networks.probe();
      if (problem !== null) return console.log(`skipped: networks of machines: ${problem.reason}`);
      const plan = planOf(bench, { network: { kind: "egress", hosts: ["example.com"] } });
      const first = bench.next({ networks });
      const machine = await first.create(plan, { signal: signal() });
      const { resolvConf, environ } = networks.inside(plan.network);
      const look =
        "cat /etc/resolv.conf; grep -c 127.0.1.1.box /etc/hosts; cat /etc/hostname; echo $https_proxy $ANSWER";
      const expected = `${resolvConf}1\nbox\n${environ.https_proxy} 42\n`;
      expect(await shell(machine, look)).toBe(expected);
      const given = await run(machine, ["/usr/bin/env"], { environ: { HTTP_PROXY: "mine" } });
      expect(given.text).toContain("HTTP_PROXY=mine\n");
      expect(given.text).toContain(`https_proxy=${environ.https_proxy}\n`);
      expect(machine.outerAddress).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
      await first.close();
      const later = bench.next({ networks });
      const adopted = (await later.adopt(plan)) as LiveMachine;
      expect(adopted.outerAddress).toBe(machine.outerAddress);
      expect(await shell(adopted, look)).toBe(expected);
      await later.remove(plan.id);
      await later.close();
      await networks.close({ keep: false });
    });

    test("a network that cannot be made leaves no machine; one that cannot be taken over leaves it without", async () => {
      const faulty: Networks = {
        probe: async () => null,
        inside: () => ({ environ: {}, resolvConf: null }),
        connect: () => Promise.reject(new Error("no rules")),
        adopt: () => Promise.reject(new Error("no rules")),
        disconnect: async () => undefined,
        reconcile: async () => undefined,
        close: async () => undefined,
      };
      const plan = planOf(bench, { network: { kind: "open" } });
      const first = bench.next({ networks: faulty });
      await expect(first.create(plan, { signal: signal() })).rejects.toThrow("no rules");
      expect(await leftovers()).toEqual([]);
      const passing = bench.next({ networks: { ...faulty, connect: async () => ({ outerAddress: "198.18.1.1" }) } });
      expect((await passing.create(plan, { signal: signal() })).outerAddress).toBe("198.18.1.1");
      await passing.close();
      const adopted = (await first.adopt(plan)) as LiveMachine;
      expect(adopted.outerAddress).toBeNull();
      expect(bench.warnings.splice(0)).toEqual([expect.stringContaining("goes on without a network: no rules")]);
      expect(await shell(adopted, "echo works")).toBe("works\n");
      await first.close();
    });

    test("the end of a machine is told once, and to everybody who waits for something", async () => {
      const machine = await createOn(bench);
      const { id, stdout } = await machine.startExec(
        execOf(["/bin/sh", "-c", "echo up; sleep 1000"], { attach: true }),
      );
      await once(stdout as Readable, "data");
      const failed = once(stdout as Readable, "error");
      const waiting = machine.waitExec(id, { collect: false }).catch((error: unknown) => error);
      await killProcess(pidOf(bench, machine.id, "sandbox.json"));
      expect(await machine.ended).toMatchObject({ started: true, signal: "KILL" });
      const lost = { code: "machine_lost", details: { exit: { code: null, signal: "KILL", oom_killed: false } } };
      expect(await waiting).toMatchObject(lost);
      expect(await failed).toMatchObject([{ code: "machine_lost" }]);
      await expect(machine.listPorts()).rejects.toMatchObject(lost);
      expect(await bench.host.list()).toEqual([machine.id]);
    });

    test("a stop ends programs politely and tells how the machine ended; asked again it says the same", async () => {
      const machine = await createOn(bench);
      const { stdout } = await machine.startExec(
        execOf(["/bin/sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"], {
          attach: true,
        }),
      );
      await once(stdout as Readable, "data");
      const said = textOf(stdout as Readable);
      const exit = await machine.stop(5000);
      expect(exit).toMatchObject({ started: true, code: 0, signal: null });
      expect(await machine.stop(5000)).toEqual(exit);
      expect(await said.catch(() => "")).toMatch(/^(bye\n)?$/);
    });

    test("a saved disk is what the machine of the same id starts with again", async () => {
      const plan = planOf(bench);
      const machine = await bench.host.create(plan, { signal: signal() });
      await shell(machine, "echo mine >/root/file; echo 10.9.9.9 elsewhere >>/etc/hosts");
      const folder = `${bench.dataDir}/saved`;
      mkdirSync(folder, { recursive: true });
      const disk = `${folder}/disk.tar.zst`;
      const writing = machine.startExec(execOf(["/bin/sh", "-c", "while :; do date >>/root/log; sleep 0.01; done"]));
      await writing;
      const saved = await Promise.all([machine.saveDisk(disk), machine.saveDisk(disk), shell(machine, "echo works")]);
      expect(saved[0]).toMatchObject({ bytes: expect.any(Number), sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
      expect(saved[2]).toBe("works\n");
      await machine.stop(1000);
      const phases: string[] = [];
      const again = await bench.host.create(plan, {
        ...{ signal: signal(), disk, onProgress: ({ phase, done, total }) => phases.push(`${phase} ${done}/${total}`) },
      });
      expect(phases).toEqual(["prepare 0/3", "disk 1/3", "start 2/3"]);
      expect(await shell(again, "cat /root/file; grep -c elsewhere /etc/hosts; getent hosts box || true")).toMatch(
        /^mine\n1\n/,
      );
      expect(readdirSync(folder)).toEqual(["disk.tar.zst"]);
      await bench.host.remove(plan.id);
      expect(existsSync(disk)).toBe(true);
    });

    test("row 30: a create that fails leaves nothing and says why: disk, image, driver, spec", async () => {
      const plan = planOf(bench);
      const failures: [() => Promise<unknown>, string][] = [
        [() => bench.host.create(plan, { signal: signal(), disk: `${bench.dataDir}/none` }), "internal"],
        [() => bench.host.create({ ...plan, name: "BAD NAME" }, { signal: signal() }), "invalid_request"],
        [() => bench.host.create({ ...plan, driver: "other" as never }, { signal: signal() }), "driver_unavailable"],
      ];
      for (const [create, code] of failures) {
        await expect(create()).rejects.toMatchObject({ code, hint: expect.stringMatching(/./) });
        expect(await leftovers()).toEqual([]);
      }
      const machine = await bench.host.create(plan, { signal: signal() });
      await expect(bench.host.create(plan, { signal: signal() })).rejects.toMatchObject({ code: "machine_state" });
      expect(await shell(machine, "echo unharmed")).toBe("unharmed\n");
    });

    test("an abort at any step of a create leaves nothing", async () => {
      for (const step of ["none", "prepare", "start"]) {
        const scope = new AbortController();
        const stop = (phase: string): void => {
          if (phase === step) scope.abort(new Error(`stopped at ${step}`));
        };
        stop("none");
        const created = bench.host.create(planOf(bench), {
          ...{ signal: scope.signal, onProgress: ({ phase }) => stop(phase) },
        });
        await expect(created).rejects.toThrow(`stopped at ${step}`);
        expect(await leftovers()).toEqual([]);
      }
    });

    test("a remove while it is being made ends the making", async () => {
      const plan = planOf(bench);
      const { promise, resolve } = Promise.withResolvers<void>();
      const made = bench.host.create(plan, {
        ...{ signal: signal(), onProgress: ({ phase }) => void (phase === "start" && resolve()) },
      });
      made.catch(() => undefined);
      await promise;
      await Promise.all([bench.host.remove(plan.id), bench.host.remove(plan.id)]);
      await expect(made).rejects.toMatchObject({ code: "machine_lost" });
      expect(await leftovers()).toEqual([]);
    });

    test("a remove ends what runs: its end and every call are told", async () => {
      const machine = await createOn(bench);
      const { id } = await machine.startExec(execOf(["/bin/sleep", "1000"]));
      const waiting = machine.waitExec(id, { collect: false }).catch((error: unknown) => error);
      await bench.host.remove(machine.id);
      expect(await machine.ended).toMatchObject({ signal: "KILL" });
      expect(await waiting).toMatchObject({ code: "machine_lost", message: expect.stringContaining("deleted") });
      await expect(bench.host.adopt(planOf(bench, { id: machine.id }))).resolves.toBeNull();
      await bench.host.remove(machine.id);
    });

    test("row 29: a burst of creates waits its turn, none is shed", async () => {
      const few = bench.next({ startsAtOnce: 2 });
      let now = 0;
      let most = 0;
      const machines = await Promise.all(
        Array.from({ length: 6 }, async () => {
          const machine = await few.create(planOf(bench, { memoryBytes: 2 ** 28 }), {
            signal: signal(),
            onProgress: ({ phase }) => {
              if (phase !== "prepare") return;
              now += 1;
              most = Math.max(most, now);
            },
          });
          now -= 1;
          return machine;
        }),
      );
      expect(most).toBe(2);
      expect(await Promise.all(machines.map((machine) => shell(machine, "echo up")))).toEqual(Array(6).fill("up\n"));
      expect((await few.list()).toSorted()).toEqual(machines.map(({ id }) => id).toSorted());
      await few.close();
    });

    test("row 21: the largest program is killed for memory and says so; one that is killed otherwise does not", async () => {
      const machine = await createOn(bench, { memoryBytes: 2 ** 28 });
      const eat = "import time\nb = bytearray()\nwhile True: b += b'x' * (1 << 20); time.sleep(0.002)";
      const expected = { oomKilled: true, signal: "KILL", exitCode: null, timedOut: false };
      expect(await run(machine, ["/usr/bin/python3", "-c", eat])).toMatchObject(expected);
      const killed = await run(machine, ["/bin/sh", "-c", "kill -KILL $$"]);
      expect(killed).toMatchObject({ ...expected, oomKilled: false });
    });

    test.skipIf(name === "gvisor")("row 21: the kernel may be faster than the agent; that is told too", async () => {
      const machine = await createOn(bench, { memoryBytes: 2 ** 28 });
      const eat = ["/usr/bin/python3", "-c", "b = bytearray()\nwhile True: b += b'x' * (1 << 20)"];
      for (let count = 0; count < 3; count += 1) {
        expect(await run(machine, eat)).toMatchObject({ oomKilled: true, signal: "KILL" });
      }
    });

    test.skipIf(name === "namespace")("row 21: a sandbox that dies of memory says so at its end", async () => {
      const machine = await createOn(bench, { memoryBytes: 2 ** 28 });
      const group = (await findMemoryGroup(bench.dataDir, machine.id)) as string;
      const used = (await machine.memoryBytes()) as number;
      await limitMemory(detectCgroups()?.version ?? 1, group, used + 8 * 2 ** 20);
      const filler = ["/usr/bin/python3", "-c", "blocks = [bytearray(2**20) for _ in range(200)]"];
      await expect(run(machine, filler)).rejects.toMatchObject({
        ...{ code: "machine_lost", details: { exit: { oom_killed: true } } },
      });
      expect(await machine.ended).toMatchObject({ started: true, oom_killed: true });
    });

    test("a shim that is killed while nobody asks is replaced without a word", async () => {
      const machine = await createOn(bench);
      for (let count = 0; count < 3; count += 1) {
        await killProcess(pidOf(bench, machine.id, "shim.pid"));
        expect(await shell(machine, "echo still")).toBe("still\n");
      }
      expect(bench.warnings).toEqual([]);
    });

    test("shim and sandbox killed together: the end is still told", async () => {
      const machine = await createOn(bench);
      const pids = (["shim.pid", "sandbox.json"] as const).map((file) => pidOf(bench, machine.id, file));
      for (const pid of pids) await killProcess(pid);
      expect((await machine.ended) as MachineExit).toMatchObject({ started: true, code: null });
      await expect(machine.statFile("/", {})).rejects.toMatchObject({ code: "machine_lost" });
    });

    test("a host's list has no probe of its own", async () => {
      const probing = bench.next().probe();
      const seen: string[] = [];
      let isOver = false;
      const over = probing.then(() => {
        isOver = true;
      });
      while (!isOver) seen.push(...(await bench.host.list()));
      await over;
      expect(seen).toEqual([]);
      expect(transientMachines.size).toBe(0);
    });
  });
}
