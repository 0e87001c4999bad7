import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FIRST_UID } from "../../../src/host/uids/claim.ts";
import { attemptOutside, NO_NAMESPACES } from "../support.ts";
import {
  type Guest,
  LIMIT_MS,
  type MachineHost,
  machineFolder,
  machineLeftovers,
  makeMachineHost,
  pidOf,
  startGuest,
} from "./support.ts";

const NONE = "0000000000000000";
/** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE. */
const OWN_KERNEL = [0, 1, 3, 4, 5, 6, 7, 10].reduce((sum, bit) => sum + 2 ** bit, 0);

for (const name of ["namespace", "gvisor"] as const) {
  const host = makeMachineHost(name);
  const probe = await host.driver.probeMachines();
  if (!probe.available) console.log(`skipped: users in machines of the ${name} driver: ${probe.reason}`);

  describe.skipIf(!probe.available)(`who programs of a machine of ${name} are`, { timeout: LIMIT_MS }, () => {
    let guest: Guest;
    let canaries = "";

    beforeAll(async () => {
      canaries = mkdtempSync(`${tmpdir()}/sandpool-canary-`);
      chmodSync(canaries, 0o755);
      guest = await startGuest(host);
    });
    afterAll(async () => {
      for (const id of await host.driver.list()) await host.driver.remove(id);
      rmSync(canaries, { recursive: true, force: true });
      expect(await machineLeftovers(host)).toEqual([]);
      host.remove();
    });

    test("class 10: no device can be made, and none of the host's changed", async () => {
      expect(await guest.attempt("make_node", "/tmp/null")).toEqual({ failed: "EPERM" });
      // Its own mode: nothing would be lost.
      expect(await guest.shell("chmod 666 /dev/null 2>&1; stat -c %a /dev/null")).toMatch(
        name === "namespace" ? /not permitted\n666/ : /^666/,
      );
      expect(await attemptOutside(["make_node", `${canaries}/null`])).toEqual({ did: "made" });
    });

    test("class 10: a set-id program that the machine's root made gives nobody root", async () => {
      await guest.shell("cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id");
      expect(await guest.run(["/tmp/id", "-u"], { user: "1234:1234" })).toBe("1234\n");
      expect(await guest.attempt("status")).toMatchObject({ did: { NoNewPrivs: "1", CapInh: NONE } });
      copyFileSync("/usr/bin/id", `${canaries}/id`);
      chmodSync(`${canaries}/id`, 0o6755);
      expect(await attemptOutside(["run_setuid", `${canaries}/id`, 1234])).toEqual({ did: "0" });
    });

    test("class 10: a file of the host never belongs to the machine's root, nor a process to the host's", async () => {
      const id = await guest.start(["/bin/sleep", "1000"], { user: "77:78" });
      const processes = processesOf(host, guest.id);
      expect(processes.length).toBeGreaterThan(0);
      const base = firstUidOf(host, guest.id);
      for (const uid of processes.map(uidOf)) expect([uid >= base, uid < base + 65_536]).toEqual([true, true]);
      expect(base).toBeGreaterThanOrEqual(FIRST_UID);
      await guest.channel.ask({ op: "exec.signal", id, signal: "KILL", tree: true });
      expect(await guest.shell("stat -c %u /usr/bin/env /usr")).toMatch(/^(65534\n65534|0\n0)\n$/);
      expect(await guest.attempt("each", "open_for_writing", "/usr/bin/env")).toEqual({
        did: [{ failed: expect.stringMatching(/EROFS|EACCES/) }],
      });
    });

    test("class 11: a process of the host can be neither seen nor killed", async () => {
      const canary = spawn("sleep", ["60"], { stdio: "ignore" });
      try {
        expect(await guest.attempt("kill_process", canary.pid ?? 0)).toEqual({ failed: "ESRCH" });
        expect(canary.signalCode).toBeNull();
        const ended = new Promise((resolve) => canary.once("exit", (_, signal) => resolve(signal)));
        expect(await attemptOutside(["kill_process", canary.pid ?? 0], NO_NAMESPACES)).toEqual({ did: "killed" });
        expect(await ended).toBe("SIGKILL");
      } finally {
        canary.kill("SIGKILL");
      }
    });

    test("class 11: a neighbour's processes are not there, and its ids are others", async () => {
      const neighbour = await startGuest(host);
      const pids = [neighbour.id, guest.id].map((id) => pidOf(host, id, "sandbox.json"));
      const canary = await neighbour.start(["/bin/sleep", "1000"]);
      const aims = [...processesOf(host, neighbour.id), pids[0] as number];
      const none = aims.map(() => ({ failed: "ESRCH" }));
      expect(await guest.attempt("each", "kill_process", ...aims)).toEqual({ did: none });
      expect(await guest.attempt("each", "read_memory", ...aims)).toEqual({
        did: aims.map(() => ({ failed: "ENOENT" })),
      });
      const listed = await neighbour.channel.ask({ op: "exec.list" });
      expect(listed.head.execs).toEqual([expect.objectContaining({ id: canary, state: "running" })]);
      expect(new Set(pids.map(uidOf)).size).toBe(2);
      expect(await attemptOutside(["read_memory", pids[0] as number], NO_NAMESPACES)).toEqual({ did: 1 });
    });

    test("class 11: process 1, which has more rights than programs have, cannot be traced, read or robbed", async () => {
      expect(await guest.attempt("attach", 1)).toEqual({ did: "EPERM" });
      expect(await guest.attempt("read_memory", 1)).toEqual({ failed: expect.stringMatching(/EACCES|ENOENT|EPERM/) });
      expect(await guest.attempt("take_descriptor", 1)).toEqual({ did: "EPERM" });
      // gVisor's own kernel lets a program trace what it started.
      expect(await guest.attempt("attach_to_child")).toEqual({ did: name === "namespace" ? "EPERM" : "ok" });
      expect(await attemptOutside(["attach_to_child"])).toEqual({ did: "ok" });
    });

    test("class 12: a user is taken as it is written, or refused", async () => {
      const odd = [
        "0x0",
        "+0",
        "",
        "1000:",
        ":0",
        "-1",
        "4294967295",
        "4294967296",
        "root:root",
        " root",
        "root ",
        "0.0",
        "0e0",
        "00:",
        "٠",
      ];
      for (const user of odd) {
        const start = guest.start(["/usr/bin/id"], { user });
        await expect(start, JSON.stringify(user)).rejects.toMatchObject({
          code: "exec_failed",
          details: { what: "user" },
        });
      }
      expect(await guest.run(["/usr/bin/id"], { user: "1000" })).toBe("uid=1000 gid=1000 groups=1000\n");
      expect(await guest.run(["/usr/bin/id"], { user: "1000:7" })).toBe("uid=1000 gid=7 groups=7\n");
      expect(await guest.run(["/usr/bin/id", "-un"], { user: "nobody" })).toBe("nobody\n");
      // Other programs take such a number.
      expect(await attemptOutside(["uid"], ["setpriv", "--reuid=+7", "--clear-groups"])).toEqual({ did: 7 });
    });

    test("class 12: an exec has no capability of a user's, and of root's none that reaches the host", async () => {
      const root = name === "namespace" ? NONE : OWN_KERNEL.toString(16).padStart(16, "0");
      const sets = (text: string): Record<string, string> =>
        Object.fromEntries([...text.matchAll(/^(Cap\w+|NoNewPrivs):\t(\w+)$/gm)].map(([, key, value]) => [key, value]));
      const read = ["/bin/cat", "/proc/self/status"];
      const none = { CapInh: NONE, CapPrm: NONE, CapEff: NONE, CapAmb: NONE, NoNewPrivs: "1" };
      expect(sets(await guest.run(read, { user: "1000" }))).toMatchObject(none);
      expect(sets(await guest.run(read))).toMatchObject({ ...none, CapPrm: root, CapEff: root });
      const { did } = (await attemptOutside(["status"])) as { did: Record<string, string> };
      expect(did.CapEff).not.toBe(NONE);
    });
  });
}

/** Host pids in the machine's groups, or with an id of its range. */
function processesOf(host: MachineHost, id: string): number[] {
  const base = firstUidOf(host, id);
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0)
    .filter((pid) => {
      try {
        const uid = uidOf(pid);
        return readFileSync(`/proc/${pid}/cgroup`, "utf8").includes(`/${id}\n`) || (uid >= base && uid < base + 65_536);
      } catch {
        return false;
      }
    });
}

function firstUidOf(host: MachineHost, id: string): number {
  const record = JSON.parse(readFileSync(`${machineFolder(host, id)}/machine.json`, "utf8")) as { firstUid: number };
  return record.firstUid;
}

function uidOf(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/^Uid:\s+(\d+)/m)?.[1]);
}
