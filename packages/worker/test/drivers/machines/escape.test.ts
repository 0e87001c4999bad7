import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findAgent } from "../../../src/agent/find.ts";
import { attemptOutside, NO_NAMESPACES } from "../support.ts";
import {
  Guest,
  LIMIT_MS,
  machineFolder,
  machineLeftovers,
  machineSpec,
  makeMachineHost,
  makeRootfs,
  startGuest,
} from "./support.ts";

/*
 * Attempts against the host, by the classes of escapes that we know. Who programs are inside (10 to 12): escape-users.test.ts; images (4 to
 * 7): escape-images.test.ts; files, paths and archives (3, 10, 19 to 23): ../../machines/hostile-files.test.ts.
 */
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

    test("class 1: no descriptor of the host is open, and none can be the working directory", async () => {
      expect(await guest.attempt("descriptors")).toEqual({ did: [0, 1, 2] });
      const folders = Array.from({ length: 64 }, (_, index) => `/proc/self/fd/${index}/..`);
      const script = folders.map((path) => `(cd ${path} 2>/dev/null && ls ${canaries} 2>/dev/null)`).join("; ");
      expect(await guest.shell(`${script}; true`)).toBe("");
      for (let descriptor = 0; descriptor < 64; descriptor++) {
        const start = guest.start(["/bin/ls"], { cwd: `/proc/self/fd/${descriptor}` });
        await expect(start).rejects.toMatchObject({ code: "exec_failed", details: { what: "cwd" } });
      }
      const leaky = ["/bin/sh", "-c", `exec "$@" 9<${canaries}/secret`, "sh"];
      // What started the test may have left some open too.
      expect(await attemptOutside(["descriptors"], leaky)).toEqual({ did: expect.arrayContaining([0, 1, 2, 9]) });
      expect(await attemptOutside(["read_file", "/proc/self/fd/9"], leaky)).toEqual({ did: "canary" });
    });

    test("class 2: the agent's program, and the host's, cannot be written", async () => {
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

    test("class 2: a program that is /proc/self/exe leaves the agent, the shim and the runtime as they are", async () => {
      const agent = findAgent() ?? "";
      const programs = [agent, `${dirname(agent)}/sandpool-shim`, probe.runtime?.path ?? ""];
      const before = programs.map(hashOf);
      await guest.shell("ln -sf /proc/self/exe /tmp/itself");
      const id = await guest.start(["/tmp/itself", "machine"], { stdin: true });
      const write =
        "for p in /proc/[0-9]*/exe /proc/self/exe /proc/1/exe; do (: >>$p) 2>/dev/null && echo $p; done; true";
      expect(await guest.shell(write)).toBe("");
      await guest.channel.ask({ op: "exec.signal", id, signal: "KILL", tree: true });
      expect(programs.map(hashOf)).toEqual(before);
    });

    test("files of the host are not there", async () => {
      for (const path of [`${canaries}/secret`, "/etc/shadow", "/etc/ssh", "/proc/1/root/etc/shadow", host.dataDir]) {
        expect(await guest.attempt("read_file", path)).toEqual({ failed: "ENOENT" });
      }
      expect(await attemptOutside(["read_file", `${canaries}/secret`])).toEqual({ did: "canary" });
    });

    test("class 8: no sysctl of the host can be written, and masked files say nothing", async () => {
      // gVisor has a few of these names in its own kernel; what is written there never leaves it.
      const own = name === "gvisor" ? ["sysrq-trigger", "hostname", "overcommit_memory", "ip_forward"] : [];
      const opened = (await guest.attempt("each", "open_for_writing", ...WRITABLE_BY_ROOT)) as { did: object[] };
      const expected = WRITABLE_BY_ROOT.map((path) => ({
        path,
        ...(own.includes(basename(path))
          ? { did: "opened" }
          : { failed: expect.stringMatching(/EROFS|EACCES|ENOENT/) }),
      }));
      expect(opened.did.map((outcome, index) => ({ path: WRITABLE_BY_ROOT[index], ...outcome }))).toEqual(expected);
      if (name === "gvisor") expect(await guest.shell("uname -r")).toContain("gvisor");
      const masked = (await guest.attempt("each", "read_file", ...MASKED)) as { did: object[] };
      const silent = [{ did: "" }, { failed: "ENOENT" }, { failed: "EACCES" }, { failed: "EPERM" }];
      for (const outcome of masked.did) expect(silent).toContainEqual(outcome);
      expect(await guest.shell("cat /sys/firmware/* /sys/module/* /sys/fs/cgroup/* 2>/dev/null; true")).toBe("");
      const sysctl = "/proc/sys/net/ipv4/ip_forward";
      const before = readFileSync(sysctl, "utf8");
      await guest.attempt("write_file", sysctl, before.trim() === "1" ? "0" : "1");
      expect(readFileSync(sysctl, "utf8")).toBe(before);
      expect(await attemptOutside(["write_file", sysctl, "1"])).toEqual({ did: "written" });
    });

    test("class 9: no group of the host can be mounted or changed", async () => {
      const refused = { did: expect.not.arrayContaining(["made"]) };
      expect(await guest.attempt("mount_groups", "/tmp")).toEqual(refused);
      const make = "ls -A /sys/fs/cgroup 2>/dev/null; mkdir /sys/fs/cgroup/x 2>/dev/null && echo made; true";
      expect(await guest.shell(make)).toBe("");
      mkdirSync(`${canaries}/groups`);
      expect(await attemptOutside(["mount_groups", `${canaries}/groups`])).toEqual({
        did: expect.arrayContaining(["made"]),
      });
      rmdirSync(`${canaries}/groups`);
    });

    test("class 13: system calls that reach deep into the kernel are refused, or are another kernel's", async () => {
      expect(await guest.attempt("probes")).toEqual({ did: name === "namespace" ? REFUSED : OWN_KERNEL });
      const { did } = (await guest.attempt("families")) as { did: Record<string, unknown> };
      const no = { failed: expect.stringMatching(/ENOSYS|EPERM|EAFNOSUPPORT/) };
      expect(did).toEqual({ unix: { did: null }, inet: { did: null }, packet: no, alg: no, vsock: no });
      const { did: outside } = (await attemptOutside(["probes"])) as { did: Record<string, string> };
      const { clone3, io_uring_setup: ring, perf_event_open: perf, ...rest } = outside;
      // An empty clone3 is invalid; io_uring and perf may be switched off on a host by its owner.
      expect([clone3, ["ok", "EPERM", "ENOSYS"].includes(ring ?? ""), perf?.length]).toEqual([
        "EINVAL",
        true,
        perf?.length,
      ]);
      expect(new Set(Object.values(rest))).toEqual(new Set(["ok"]));
    });

    test("class 14: no character can be typed into a terminal of the host, nor into one of an exec", async () => {
      // TIOCSTI is refused by the filter; gVisor's kernel has none.
      const refused = { did: name === "namespace" ? "ENOSYS" : "ENOTTY" };
      expect(await guest.attempt("type_into_terminal")).toEqual(refused);
      expect(await guest.attempt("type_with_high_bits")).toEqual(refused);
      expect(await guest.attempt("open_for_writing", "/dev/tty")).toEqual({ failed: "ENXIO" });
      const tty = { rows: 24, columns: 80 };
      const typed = "import fcntl\nfor c in 'echo typed\\n': fcntl.ioctl(0, 0x5412, c.encode())";
      const script = `/usr/bin/python3 -c "${typed}" 2>/dev/null; echo done; timeout --foreground 0.3 cat; true`;
      const id = await guest.start(["/bin/sh", "-c", script], { tty });
      const { head, body } = await guest.channel.ask({ op: "exec.wait", id, collect: true });
      expect([head.exit_code, body.toString()]).toEqual([0, "done\r\n"]);
      expect(await attemptOutside(["type_with_high_bits"])).toEqual(await attemptOutside(["type_into_terminal"]));
    });

    test("class 15: the host's loopback and abstract sockets cannot be reached", async () => {
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

    test("class 16: no socket of the host is inside: not the machine's own, and none can be asked for", async () => {
      const path = `${canaries}/socket`;
      const server = await listen(path);
      chmodSync(path, 0o777);
      try {
        const own = `${machineFolder(host, guest.id)}/shim.sock`;
        for (const socket of [path, own, "/var/run/docker.sock", "/run/dbus/system_bus_socket"]) {
          expect(await guest.attempt("connect_unix", socket)).toEqual({ failed: "ENOENT" });
        }
        expect(
          await guest.shell("find / -path /usr -prune -o -path /proc -prune -o -type s -print 2>/dev/null; true"),
        ).toBe("");
        const spec = { ...machineSpec(), mounts: [{ source: path, target: "/socket", readOnly: false }] };
        await host.driver.prepare(spec, AbortSignal.timeout(LIMIT_MS));
        const other = new Guest(await host.driver.launch(spec.id));
        expect(await other.attempt("connect_unix", "/socket")).toEqual({ failed: "ENOENT" });
        expect(await attemptOutside(["connect_unix", path], NO_NAMESPACES)).toEqual({ did: "" });
      } finally {
        server.close();
      }
    });

    test("class 17: an id whose folder somebody planted is refused, and what the link points to is untouched", async () => {
      mkdirSync(`${canaries}/target/layer`, { recursive: true });
      for (const file of ["disk.tar", "layer/kept"]) writeFileSync(`${canaries}/target/${file}`, "canary");
      for (const place of ["run", "data"]) {
        const spec = machineSpec();
        const folder = place === "run" ? machineFolder(host, spec.id) : `${host.dataDir}/machines/${spec.id}`;
        mkdirSync(dirname(folder), { recursive: true });
        symlinkSync(`${canaries}/target`, folder);
        const refused = host.driver.prepare(spec, AbortSignal.timeout(LIMIT_MS));
        await expect(refused).rejects.toThrow(/in use|is a link or a file/);
        await host.driver.remove(spec.id);
        expect(readdirSync(`${canaries}/target/layer`)).toEqual(["kept"]);
        expect(readdirSync(`${canaries}/target`).sort()).toEqual(["disk.tar", "layer"]);
        rmSync(folder, { force: true });
        symlinkSync(`${canaries}/target`, folder);
        expect(await attemptOutside(["make_folder", `${folder}/bundle`])).toEqual({ did: "made" });
        rmdirSync(`${canaries}/target/bundle`);
        rmSync(folder, { force: true });
      }
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
  });
}

/** Each is a way to the host's root for who can write to it. */
const WRITABLE_BY_ROOT = [
  "/proc/sys/kernel/core_pattern",
  "/proc/sys/kernel/modprobe",
  "/proc/sys/kernel/hostname",
  "/proc/sys/kernel/hotplug",
  "/proc/sys/vm/overcommit_memory",
  "/proc/sys/net/ipv4/ip_forward",
  "/proc/sys/fs/binfmt_misc/register",
  "/proc/irq/default_smp_affinity",
  "/proc/bus/pci/devices",
  "/proc/sysrq-trigger",
  "/sys/kernel/uevent_helper",
  "/sys/fs/cgroup/cgroup.procs",
  "/sys/fs/cgroup/release_agent",
  "/dev/mem",
  "/dev/kmsg",
];

const MASKED = [
  "/proc/kcore",
  "/proc/keys",
  "/proc/kallsyms",
  "/proc/kmsg",
  "/proc/modules",
  "/proc/interrupts",
  "/proc/sched_debug",
  "/proc/timer_list",
  "/sys/kernel/vmcoreinfo",
  "/sys/firmware/acpi/tables/DSDT",
];

/** What the filter answers. */
const REFUSED = {
  ...{ keyctl: "EPERM", bpf: "EPERM", io_uring_setup: "EPERM", userfaultfd: "EPERM", perf_event_open: "EPERM" },
  ...{ setns: "EPERM", chroot: "EPERM", ptrace: "EPERM", mount: "EPERM", fsopen: "ENOSYS", clone3: "ENOSYS" },
  ...{ unshare_user: "EPERM", unshare_net: "EPERM", unshare_mounts_and_user: "EPERM", clone_user: "EPERM" },
  clone_plain: "ok",
};

/** What gVisor's kernel answers itself: the host's is asked for none of it. */
const OWN_KERNEL = {
  ...{ keyctl: "ok", bpf: "EPERM", io_uring_setup: "ENOSYS", userfaultfd: "ENOSYS", perf_event_open: "ENODEV" },
  ...{ setns: "EPERM", chroot: "EPERM", ptrace: "ok", mount: "EPERM", fsopen: "EPERM", clone3: "EINVAL" },
  ...{ unshare_user: "ok", unshare_net: "EPERM", unshare_mounts_and_user: "ok", clone_user: "ok", clone_plain: "ok" },
};

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
