import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { attemptInside, attemptOutside, LIMIT_MS, leftovers, makeHost, NO_NAMESPACES } from "../support.ts";

// Making the outer throwaway namespaces needs root; rootless.test.ts has the rest.
describe.skipIf(process.geteuid?.() !== 0)(
  "attempts from inside, and the same without isolation",
  { timeout: LIMIT_MS },
  () => {
    const host = makeHost();
    let canaries = "";

    beforeAll(() => {
      canaries = mkdtempSync(`${tmpdir()}/sandpool-canary-`);
      chmodSync(canaries, 0o755);
      writeFileSync(`${canaries}/secret`, "canary", { mode: 0o666 });
      mkdirSync(`${canaries}/env`);
      writeFileSync(`${canaries}/env/code`, "canary");
      chmodSync(`${canaries}/env/code`, 0o666);
    });
    afterEach(async () => {
      expect(await leftovers(host)).toEqual([]);
    });
    afterAll(() => {
      rmSync(canaries, { recursive: true, force: true });
      host.remove();
    });

    test("a file of the host cannot be read", async () => {
      expect(await attemptInside(host, ["read_file", `${canaries}/secret`])).toEqual({ failed: "ENOENT" });
      expect(await attemptOutside(["read_file", `${canaries}/secret`])).toEqual({ did: "canary" });
    });

    test("a read-only mount cannot be written, whatever its mode bits", async () => {
      const mounts = [{ source: `${canaries}/env`, target: "/env", readOnly: true }];
      expect(await attemptInside(host, ["read_file", "/env/code"], { mounts })).toEqual({ did: "canary" });
      expect(await attemptInside(host, ["write_file", "/env/code", "changed"], { mounts })).toEqual({
        failed: "EROFS",
      });
      expect(readFileSync(`${canaries}/env/code`, "utf8")).toBe("canary");
      writeFileSync(`${canaries}/copy`, "canary");
      expect(await attemptOutside(["write_file", `${canaries}/copy`, "broken"])).toEqual({ did: "written" });
      expect(readFileSync(`${canaries}/copy`, "utf8")).toBe("broken");
    });

    test("the host's programs cannot be written", async () => {
      expect([{ failed: "EROFS" }, { failed: "EACCES" }]).toContainEqual(
        await attemptInside(host, ["open_for_writing", "/usr/bin/env"], { capabilities: "pool" }),
      );
    });

    test.each(["/etc/shadow", "/etc/ssh", "/root", "/home", "/var", "/proc/1/root/etc/shadow"])(
      "%s is not there",
      async (path) => {
        expect(await attemptInside(host, ["read_file", path])).toEqual({ failed: "ENOENT" });
      },
    );

    test("a sysctl cannot be written, not even one of its own network namespace", async () => {
      const sysctl = "/proc/sys/net/ipv4/ip_forward";
      expect([{ failed: "EROFS" }, { failed: "EACCES" }]).toContainEqual(
        await attemptInside(host, ["write_file", sysctl, "1"], { capabilities: "pool" }),
      );
      expect(await attemptOutside(["write_file", sysctl, "1"])).toEqual({ did: "written" });
    });

    test.each([
      "/proc/sys/kernel/core_pattern",
      "/proc/sys/kernel/modprobe",
      "/proc/sys/kernel/hostname",
      "/proc/irq/default_smp_affinity",
    ])("%s cannot be opened for writing", async (path) => {
      const outcome = await attemptInside(host, ["open_for_writing", path], { capabilities: "pool" });
      expect(["EROFS", "EACCES", "ENOENT"]).toContain((outcome as { failed: string }).failed);
    });

    test.each(["/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/timer_list", "/proc/modules", "/proc/interrupts"])(
      "%s says nothing",
      async (path) => {
        // Masked by the null device, or absent from this kernel; kcore may not even be opened.
        const outcome = await attemptInside(host, ["read_file", path], { capabilities: "pool" });
        expect([{ did: "" }, { failed: "ENOENT" }, { failed: "EACCES" }, { failed: "EPERM" }]).toContainEqual(outcome);
      },
    );

    test("a sysrq write has no effect: the file is the null device", async () => {
      const outcome = await attemptInside(host, ["read_file", "/proc/sysrq-trigger"], { capabilities: "pool" });
      expect([{ did: "" }, { failed: "ENOENT" }]).toContainEqual(outcome);
    });

    test("a process of the host can be neither seen nor killed", async () => {
      const canary = spawn("sleep", ["60"], { stdio: "ignore" });
      try {
        const outcome = await attemptInside(host, ["kill_process", canary.pid ?? 0], { capabilities: "pool" });
        expect(outcome).toEqual({ failed: "ESRCH" });
        expect(await attemptInside(host, ["pids"])).toEqual({ did: [1] });
        expect(canary.signalCode).toBeNull();
        const ended = new Promise((resolve) => canary.once("exit", (_, signal) => resolve(signal)));
        expect(await attemptOutside(["kill_process", canary.pid ?? 0], NO_NAMESPACES)).toEqual({ did: "killed" });
        expect(await ended).toBe("SIGKILL");
      } finally {
        canary.kill("SIGKILL");
      }
    });

    test("the host's loopback and abstract sockets cannot be reached", async () => {
      const name = `sandpool-canary-${process.pid}`;
      const loopback = await listen(0);
      const abstract = await listen(`\0${name}`);
      try {
        const port = (loopback.address() as { port: number }).port;
        expect(await attemptInside(host, ["connect", port])).toEqual({ failed: "ECONNREFUSED" });
        expect(await attemptInside(host, ["connect_abstract", name])).toEqual({ failed: "ECONNREFUSED" });
        expect(await attemptOutside(["connect", port], NO_NAMESPACES)).toEqual({ did: "connected" });
        expect(await attemptOutside(["connect_abstract", name], NO_NAMESPACES)).toEqual({ did: "connected" });
      } finally {
        loopback.close();
        abstract.close();
      }
    });

    test("no device node can be made", async () => {
      expect(await attemptInside(host, ["make_node", "/tmp/null"], { capabilities: "pool" })).toEqual({
        failed: "EPERM",
      });
      expect(await attemptOutside(["make_node", `${canaries}/null`])).toEqual({ did: "made" });
    });

    test("a setuid program of the host's root gives nothing", async () => {
      copyFileSync("/usr/bin/id", `${canaries}/env/id`);
      chmodSync(`${canaries}/env/id`, 0o4755);
      const mounts = [{ source: `${canaries}/env`, target: "/env", readOnly: true }];
      const inside = await attemptInside(host, ["run_setuid", "/env/id", 1234], { mounts, capabilities: "pool" });
      expect(inside).toEqual({ did: "1234" });
      expect(await attemptOutside(["run_setuid", `${canaries}/env/id`, 1234])).toEqual({ did: "0" });
    });

    test("a program of the sandbox's root is never the host's root: its uid maps above every account", async () => {
      const { did } = (await attemptInside(host, ["uid_map"])) as { did: number };
      expect(did).toBeGreaterThanOrEqual(0x7000_0000);
    });

    test("no character can be typed into a terminal, also not past the filter's 32 bits", async () => {
      expect(await attemptInside(host, ["type_into_terminal"])).toEqual({ did: "ENOSYS" });
      expect(await attemptInside(host, ["type_with_high_bits"])).toEqual({ did: "ENOSYS" });
      expect(await attemptOutside(["type_with_high_bits"])).toEqual(await attemptOutside(["type_into_terminal"]));
    });

    test("only the local socket families exist", async () => {
      const { did } = (await attemptInside(host, ["families"], { capabilities: "pool" })) as {
        did: Record<string, unknown>;
      };
      expect(did).toEqual({
        unix: { did: null },
        inet: { did: null },
        packet: { failed: "ENOSYS" },
        alg: { failed: "ENOSYS" },
        vsock: { failed: "ENOSYS" },
      });
    });
  },
);

function listen(address: number | string): Promise<Server> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.end());
    if (typeof address === "number") server.listen(address, "127.0.0.1", () => resolve(server));
    else server.listen(address, () => resolve(server));
  });
}
