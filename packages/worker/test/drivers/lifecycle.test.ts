import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { hostFolders } from "../../src/host/folders.ts";
import { reapLeftovers } from "../../src/host/reap.ts";
import { FIRST_UID, UIDS_PER_SLOT } from "../../src/host/uids/claim.ts";
import { attemptInside, LIMIT_MS, leftovers, makeHost, PYTHON, readAll, specOf } from "./support.ts";

const signal = (): AbortSignal => AbortSignal.timeout(LIMIT_MS);

/** The uid ranges of the processes on the host that have the sandbox's name in their command line or cgroup, the server's own aside. */
function rangesOf(id: string): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const uids = pids.flatMap((pid) => {
    try {
      const text = readFileSync(`/proc/${pid}/cgroup`, "latin1") + readFileSync(`/proc/${pid}/cmdline`, "latin1");
      return text.includes(id) ? [statSync(`/proc/${pid}`).uid] : [];
    } catch {
      return [];
    }
  });
  const ranges = uids.filter((uid) => uid !== 0).map((uid) => Math.floor((uid - FIRST_UID) / UIDS_PER_SLOT));
  return [...new Set(ranges)];
}

for (const name of ["namespace", "gvisor"] as const) {
  const host = makeHost(name);
  const probe = await host.driver.probe();
  if (!probe.available) console.log(`skipped: sandboxes of the ${name} driver: ${probe.reason}`);

  describe.skipIf(!probe.available)(`the life of a sandbox of ${name}`, { timeout: LIMIT_MS }, () => {
    afterEach(async () => {
      expect(await leftovers(host)).toEqual([]);
    });
    afterAll(() => host.remove());

    test("the exit code arrives, and the output, escaped", async () => {
      const sandbox = await host.driver.start(
        specOf({ argv: ["/bin/sh", "-c", "printf 'a\\033[31mb\\n' >&2; exit 7"] }),
        signal(),
      );
      expect(await sandbox.exited).toEqual({ code: 7, signal: null });
      expect(sandbox.stderr()).toBe("a\\x1b[31mb\n");
      await sandbox.kill();
    });

    test("the channel is descriptor 3, both ways", async () => {
      const sandbox = await host.driver.start(
        specOf({ argv: ["/bin/sh", "-c", "until read line <&3; do sleep 0.01; done; echo got $line >&3"] }),
        signal(),
      );
      sandbox.channel.write("hello\n");
      expect(await readAll(sandbox)).toBe("got hello\n");
      await sandbox.kill();
    });

    test("the end of the channel reaches the first process", async () => {
      const sandbox = await host.driver.start(specOf({ argv: ["/bin/sh", "-c", "cat <&3; exit 5"] }), signal());
      sandbox.channel.end();
      expect(await sandbox.exited).toEqual({ code: 5, signal: null });
      await sandbox.kill();
    });

    test("kill ends everything, also daemons that left their session, and may be called twice", async () => {
      const script =
        "trap '' TERM HUP; for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM; sleep 1000' &) ; done; echo up >&3; sleep 1000";
      const sandbox = await host.driver.start(specOf({ argv: ["/bin/sh", "-c", script] }), signal());
      await new Promise((resolve) => sandbox.channel.once("data", resolve));
      await Promise.all([sandbox.kill(), sandbox.kill()]);
      expect(await sandbox.exited).toEqual({ code: null, signal: "SIGKILL" });
      await sandbox.kill();
    });

    test("no two sandboxes share a host uid", async () => {
      const started = Array.from({ length: 4 }, () =>
        host.driver.start(specOf({ argv: ["/bin/sleep", "1000"] }), signal()),
      );
      const sandboxes = await Promise.all(started);
      const ranges = sandboxes.map(({ id }) => rangesOf(id));
      for (const sandbox of sandboxes) await sandbox.kill();
      for (const range of ranges) expect(range).toHaveLength(1);
      expect(new Set(ranges.flat()).size).toBe(4);
    });

    test("a program that does not exist fails the start with the runtime's reason, and leaves nothing", async () => {
      await expect(host.driver.start(specOf({ argv: ["/no/such/program"] }), signal())).rejects.toThrow(
        /\/no\/such\/program/,
      );
    });

    test("an id in use is refused and its sandbox goes on", async () => {
      const first = await host.driver.start(
        specOf({ argv: ["/bin/sh", "-c", "until read line <&3; do sleep 0.01; done; exit 0"] }),
        signal(),
      );
      await expect(host.driver.start(specOf({ id: first.id }), signal())).rejects.toThrow(/is in use/);
      first.channel.write("\n");
      expect(await first.exited).toEqual({ code: 0, signal: null });
      await first.kill();
    });

    test.each(["--help", "../x", "a b", "A", "", "-a", `${"a".repeat(49)}`])("the id %j is refused", async (id) => {
      await expect(host.driver.start(specOf({ id }), signal())).rejects.toThrow(/is not 1 to 48/);
    });

    test("an abort at any moment of the start leaves nothing", async () => {
      for (const delayMs of [0, 5, 20, 40, 60, 80]) {
        const aborter = new AbortController();
        const started = host.driver.start(specOf({ argv: ["/bin/sleep", "1000"] }), aborter.signal);
        setTimeout(() => aborter.abort(new Error("changed my mind")), delayMs);
        const outcome = await started.then(
          (sandbox) => sandbox.kill().then(() => "started first"),
          (error: Error) => error.message,
        );
        expect(["started first", "changed my mind"]).toContain(outcome);
        expect(await leftovers(host)).toEqual([]);
      }
    });

    test("a mount target inside a read-only mount must exist there", async () => {
      mkdirSync(`${host.dataDir}/outer/there`, { recursive: true });
      const outer = { source: `${host.dataDir}/outer`, target: "/env", readOnly: true };
      const inner = (target: string) => ({ source: host.dataDir, target, readOnly: true });
      const sandbox = await host.driver.start(specOf({ mounts: [outer, inner("/env/there")] }), signal());
      await sandbox.kill();
      await expect(host.driver.start(specOf({ mounts: [outer, inner("/env/absent")] }), signal())).rejects.toThrow(
        /does not exist/,
      );
    });

    test.each(["/proc/x", "/etc/passwd", "/dev/null", "relative", "/a/../etc", "/"])(
      "the mount target %s is refused",
      async (target) => {
        const mounts = [{ source: host.dataDir, target, readOnly: true }];
        await expect(host.driver.start(specOf({ mounts }), signal())).rejects.toThrow(/reserved|normal absolute path/);
      },
    );

    test("a writable mount is written, and only by the mode bits outside", async () => {
      mkdirSync(`${host.dataDir}/out`, { mode: 0o777 });
      const mounts = [{ source: `${host.dataDir}/out`, target: "/out", readOnly: false }];
      const script = "umask 0; mkdir /out/made && echo yes >&3";
      const sandbox = await host.driver.start(specOf({ mounts, argv: ["/bin/sh", "-c", script] }), signal());
      const { mode } = await import("node:fs").then((fs) => fs.statSync(`${host.dataDir}/out`));
      expect(await readAll(sandbox)).toBe(mode & 0o002 ? "yes\n" : "");
      await sandbox.kill();
    });

    test("the proxy socket is reachable, and nothing else of the network", async () => {
      const path = `${host.dataDir}/proxy.sock`;
      const server = createServer((socket) => socket.end("proxied"));
      await new Promise<void>((resolve) => server.listen({ path, writableAll: true, readableAll: true }, resolve));
      try {
        const outcome = await attemptInside(host, ["connect_unix", "/run/sandpool/proxy.sock"], {
          network: { proxySocket: path },
        });
        expect(outcome).toEqual({ did: "proxied" });
      } finally {
        server.close();
      }
    });

    test("a Python outside /usr runs from its own prefix, and nothing beside it is visible", async () => {
      const made = spawn(PYTHON, ["-m", "venv", "--without-pip", `${host.dataDir}/venv`], { stdio: "ignore" });
      await new Promise((resolve) => made.once("exit", resolve));
      writeFileSync(`${host.dataDir}/secret`, "canary");
      const python = `${host.dataDir}/venv/bin/python3`;
      const script = "import os, sys; open(3, 'w').write(f'{sys.prefix} {os.listdir(os.path.dirname(sys.prefix))}')";
      const sandbox = await host.driver.start(specOf({ pythonPath: python, argv: [python, "-c", script] }), signal());
      expect(await readAll(sandbox)).toBe(`${host.dataDir}/venv ['venv']`);
      await sandbox.kill();
    });

    test("a folder that is no Python is never mounted for one", async () => {
      mkdirSync(`${host.dataDir}/bin`, { recursive: true });
      writeFileSync(`${host.dataDir}/bin/python3`, "", { mode: 0o755 });
      const spec = specOf({ pythonPath: `${host.dataDir}/bin/python3` });
      await expect(host.driver.start(spec, signal())).rejects.toThrow(/has no lib\/python3/);
    });

    test("what a killed server left is removed by the next start; what a living one holds is not", async () => {
      const mine = await host.driver.start(specOf({ argv: ["/bin/sleep", "1000"] }), signal());
      const fixture = fileURLToPath(new URL("./fixtures/hold-sandbox.ts", import.meta.url));
      const server = spawn(process.execPath, [fixture, host.dataDir, name], { stdio: ["ignore", "pipe", "inherit"] });
      const theirs = await new Promise<string>((resolve) =>
        server.stdout.once("data", (chunk) => resolve(String(chunk).trim())),
      );
      server.kill("SIGKILL");
      await new Promise((resolve) => server.once("exit", resolve));
      expect(await leftovers(host)).toContain(`folder ${theirs}`);
      const report = await reapLeftovers(host.dataDir);
      expect(report).toMatchObject({ sandboxes: [theirs], alive: [mine.id], left: [] });
      expect((await leftovers(host)).filter((entry) => entry.startsWith("folder"))).toEqual([`folder ${mine.id}`]);
      await mine.kill();
    });

    test("what a killed server left on another data folder is removed by any next start of the user, its folder too", async () => {
      const other = makeHost(name);
      const fixture = fileURLToPath(new URL("./fixtures/hold-sandbox.ts", import.meta.url));
      const server = spawn(process.execPath, [fixture, other.dataDir, name], { stdio: ["ignore", "pipe", "inherit"] });
      await new Promise((resolve) => server.stdout.once("data", resolve));
      await reapLeftovers(host.dataDir);
      expect(existsSync(hostFolders(other.dataDir).own)).toBe(true);
      server.kill("SIGKILL");
      await new Promise((resolve) => server.once("exit", resolve));
      await reapLeftovers(host.dataDir);
      expect(await leftovers(other)).toEqual([]);
      expect(existsSync(hostFolders(other.dataDir).own)).toBe(false);
      other.remove();
    });

    test("closing the driver removes its folder, but not under a sandbox; it can start again", async () => {
      const { own } = hostFolders(host.dataDir);
      const sandbox = await host.driver.start(specOf({ argv: ["/bin/sleep", "1000"] }), signal());
      await host.driver.close?.();
      expect(existsSync(own)).toBe(true);
      await sandbox.kill();
      await host.driver.close?.();
      expect(existsSync(own)).toBe(false);
      expect(await attemptInside(host, ["pids"])).toEqual({ did: [1] });
    });

    test("a killed runtime is noticed and its container does not live on", async () => {
      const sandbox = await host.driver.start(specOf({ argv: ["/bin/sleep", "1000"] }), signal());
      const key = hostFolders(host.dataDir).key;
      const found = spawn("pgrep", ["-f", `(runc|runsc) .*${key}.*run .*${sandbox.id}$`], {
        stdio: ["ignore", "pipe", "ignore"],
      });
      const pid = await new Promise<number>((resolve) =>
        found.stdout.once("data", (chunk) => resolve(Number(String(chunk).split("\n")[0]))),
      );
      process.kill(pid, "SIGKILL");
      expect(await sandbox.exited).toEqual({ code: null, signal: "SIGKILL" });
      await sandbox.kill();
    });
  });
}
