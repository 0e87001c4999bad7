import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findAgent } from "../../../src/agent/find.ts";
import { attemptOutside, NO_NAMESPACES } from "../support.ts";
import {
  type Guest,
  LIMIT_MS,
  machineFolder,
  machineLeftovers,
  machineSpec,
  makeMachineHost,
  makeRootfs,
  startGuest,
} from "./support.ts";

// Numbers are the classes of escapes that we know; class 3, 12 and 19 to 23 are the agent's own part.
for (const name of ["namespace", "gvisor"] as const) {
  const host = makeMachineHost(name);
  const probe = await host.driver.probeMachines();
  if (!probe.available) console.log(`skipped: escapes from machines of the ${name} driver: ${probe.reason}`);

  describe.skipIf(!probe.available)(`attempts from inside a machine of ${name}`, { timeout: LIMIT_MS }, () => {
    let guest: Guest;
    let canaries = "";

    beforeAll(async () => {
      canaries = mkdtempSync(`${tmpdir()}/sandpool-canary-`);
      chmodSync(canaries, 0o755);
      writeFileSync(`${canaries}/secret`, "canary", { mode: 0o666 });
      guest = await startGuest(host);
    });
    afterAll(async () => {
      for (const id of await host.driver.list()) await host.driver.remove(id);
      rmSync(canaries, { recursive: true, force: true });
      expect(await machineLeftovers(host)).toEqual([]);
      host.remove();
    });

    test("1: no descriptor of the host is open, and none can be the working directory", async () => {
      expect(await guest.attempt("descriptors")).toEqual({ did: [0, 1, 2] });
      const folders = Array.from({ length: 64 }, (_, index) => `/proc/self/fd/${index}/..`);
      const script = folders.map((path) => `(cd ${path} 2>/dev/null && ls ${canaries} 2>/dev/null)`).join("; ");
      expect(await guest.shell(`${script}; true`)).toBe("");
      expect(await attemptOutside(["read_file", `${canaries}/secret`])).toEqual({ did: "canary" });
    });

    test("2: the agent's program, and the host's, cannot be written", async () => {
      const agent = findAgent() ?? "";
      const before = hashOf(agent);
      for (const path of ["/proc/1/exe", "/sandpool/agent", "/usr/bin/env"]) {
        const outcome = await guest.attempt("open_for_writing", path);
        expect({ path, outcome }).toEqual({
          path,
          outcome: { failed: expect.stringMatching(/EROFS|EACCES|ETXTBSY|EPERM|ENOENT/) },
        });
      }
      expect(hashOf(agent)).toBe(before);
      writeFileSync(`${canaries}/copy`, "canary");
      expect(await attemptOutside(["write_file", `${canaries}/copy`, "broken"])).toEqual({ did: "written" });
    });

    test("files of the host are not there", async () => {
      for (const path of [`${canaries}/secret`, "/etc/shadow", "/etc/ssh", "/proc/1/root/etc/shadow", host.dataDir]) {
        expect(await guest.attempt("read_file", path)).toEqual({ failed: "ENOENT" });
      }
      expect(await attemptOutside(["read_file", `${canaries}/secret`])).toEqual({ did: "canary" });
    });

    test("8: no sysctl of the host can be written, and masked files say nothing", async () => {
      if (name === "namespace") {
        for (const path of [
          "/proc/sys/kernel/core_pattern",
          "/proc/sys/kernel/modprobe",
          "/proc/irq/default_smp_affinity",
        ]) {
          expect(await guest.attempt("open_for_writing", path)).toEqual({
            failed: expect.stringMatching(/EROFS|EACCES|ENOENT/),
          });
        }
      } else expect(await guest.shell("uname -r")).toContain("gvisor");
      for (const path of ["/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/modules"]) {
        const outcome = await guest.attempt("read_file", path);
        expect([{ did: "" }, { failed: "ENOENT" }, { failed: "EACCES" }, { failed: "EPERM" }]).toContainEqual(outcome);
      }
      const sysctl = "/proc/sys/net/ipv4/ip_forward";
      expect(await attemptOutside(["write_file", sysctl, "1"])).toEqual({ did: "written" });
    });

    test("9: no cgroup can be mounted or changed", async () => {
      const outcome = await guest.attempt("make_group_in_own_mount");
      expect([{ did: "EPERM" }, { did: "ENOSYS" }, { failed: "EACCES" }]).toContainEqual(outcome);
      expect(
        await guest.shell("ls -A /sys/fs/cgroup 2>/dev/null; mkdir /sys/fs/cgroup/x 2>/dev/null && echo made; true"),
      ).not.toContain("made");
    });

    test("10: no device can be made and no new privilege gained", async () => {
      expect(await guest.attempt("make_node", "/tmp/null")).toEqual({ failed: "EPERM" });
      expect(await attemptOutside(["make_node", `${canaries}/null`])).toEqual({ did: "made" });
      expect(await guest.attempt("status")).toMatchObject({ did: { NoNewPrivs: "1", CapInh: "0000000000000000" } });
    });

    test("11: a process of the host can be neither seen nor killed", async () => {
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

    test("13: system calls that reach deep into the kernel are refused, or are another kernel's", async () => {
      const { did } = (await guest.attempt("probes")) as { did: Record<string, string> };
      for (const call of [
        "bpf",
        "io_uring_setup",
        "userfaultfd",
        "perf_event_open",
        "keyctl",
        "mount",
        "setns",
        "fsopen",
      ]) {
        if (name === "namespace") expect({ call, outcome: did[call] }).not.toEqual({ call, outcome: "ok" });
      }
      for (const call of ["mount", "chroot", "bpf", "perf_event_open"])
        expect({ call, outcome: did[call] }).not.toEqual({ call, outcome: "ok" });
    });

    test("14: no character can be typed into a terminal of the host", async () => {
      expect(await guest.attempt("type_into_terminal")).not.toEqual({ did: "ok" });
      expect(await attemptOutside(["type_with_high_bits"])).toEqual(await attemptOutside(["type_into_terminal"]));
    });

    test("15: the host's loopback and abstract sockets cannot be reached", async () => {
      const socket = `sandpool-canary-${process.pid}-${name}`;
      const [loopback, abstract] = [await listen(0), await listen(`\0${socket}`)];
      try {
        const { port } = loopback.address() as { port: number };
        expect(await guest.attempt("connect", port)).toEqual({ failed: "ECONNREFUSED" });
        expect(await guest.attempt("connect_abstract", socket)).toEqual({ failed: "ECONNREFUSED" });
        expect(await attemptOutside(["connect", port], NO_NAMESPACES)).toEqual({ did: "connected" });
        expect(await attemptOutside(["connect_abstract", socket], NO_NAMESPACES)).toEqual({ did: "connected" });
      } finally {
        loopback.close();
        abstract.close();
      }
    });

    test("17: an id whose folder somebody planted is refused, and what the link points to is untouched", async () => {
      const spec = machineSpec();
      const folder = machineFolder(host, spec.id);
      mkdirSync(dirname(folder), { recursive: true });
      mkdirSync(`${canaries}/target`);
      symlinkSync(`${canaries}/target`, folder);
      await expect(host.driver.prepare(spec, AbortSignal.timeout(LIMIT_MS))).rejects.toThrow("in use");
      expect(readdirSync(`${canaries}/target`)).toEqual([]);
      rmSync(folder);
    });

    test("an image from elsewhere starts, its files belong to the machine's root, and stay as they are", async () => {
      const rootfs = `${canaries}/image`;
      makeRootfs(rootfs);
      writeFileSync(`${rootfs}/root/note`, "from the image\n", { mode: 0o600 });
      const other = await startGuest(host, { image: { kind: "rootfs", folder: rootfs } });
      expect(await other.run(["/bin/sh", "-c", "cat /root/note; echo changed >/root/note; cat /root/note"])).toBe(
        "from the image\nchanged\n",
      );
      expect(readFileSync(`${rootfs}/root/note`, "utf8")).toBe("from the image\n");
      expect(existsSync(`${rootfs}/sandpool`)).toBe(false);
    });

    test.each(["dev", "proc", "sys", "tmp", "run", "sandpool"])(
      "4 to 7: an image whose /%s is a link is refused, or the link leads nowhere outside",
      async (folder) => {
        const rootfs = `${canaries}/hostile-${folder}`;
        makeRootfs(rootfs);
        mkdirSync(`${canaries}/aim-${folder}`, { mode: 0o777 });
        symlinkSync(`../../../../../../../../${canaries.slice(1)}/aim-${folder}`, `${rootfs}/${folder}`);
        const outcome = await startGuest(host, { image: { kind: "rootfs", folder: rootfs } }).then(
          (other) => other.run(["/bin/sh", "-c", `echo x >/${folder}/planted; echo ran`]),
          (error: Error) => error.message,
        );
        expect(outcome).toMatch(/^ran\n$|is a link or a file|could not be started|failed/);
        expect(readdirSync(`${canaries}/aim-${folder}`)).toEqual([]);
      },
    );
  });
}

function hashOf(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

function listen(address: number | string): Promise<Server> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.end());
    if (typeof address === "number") server.listen(address, "127.0.0.1", () => resolve(server));
    else server.listen(address, () => resolve(server));
  });
}
