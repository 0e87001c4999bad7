import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findAgent } from "../../src/agent/find.ts";
import { createDriver } from "../../src/drivers/drivers.ts";
import { hostFolders } from "../../src/host/folders.ts";
import { leftovers } from "../fixtures/leftovers.ts";

const script = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        act()
        print(name, "did", flush=True)
    except OSError as error:
        print(name, "failed", flush=True)
def call(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "")
def write(path):
    with open(path, "r+") as file:
        file.write("x")
attempt("chroot", lambda: (os.mkdir("/build/root"), os.chroot("/build/root")))
up = "../" * 40
attempt("own root", lambda: os.listdir(up + "build"))
attempt("canary", lambda: open(up + os.environ["CANARY"]).read())
attempt("sysctl", lambda: write(up + "proc/sys/kernel/core_pattern"))
attempt("modprobe", lambda: write(up + "proc/sys/kernel/modprobe"))
attempt("sysrq", lambda: write(up + "proc/sysrq-trigger"))
attempt("usr", lambda: open(up + "usr/planted", "w"))
os.mkdir("device")
attempt("device", lambda: os.mknod("device/null", 0o20666, os.makedev(1, 3)))
attempt("disk", lambda: call(libc.mount(b"/dev/vda", b"device", b"ext4", 0, None)))
attempt("proc", lambda: call(libc.mount(b"proc", b"device", b"proc", 0, None)))
attempt("cgroup", lambda: call(libc.mount(b"cgroup", b"device", b"cgroup2", 0, None)))
attempt("remount", lambda: call(libc.mount(None, b"/proc/sys", None, 0x1020, None)))
attempt("namespace", lambda: call(libc.unshare(0x10000000)))
attempt("bind", lambda: call(libc.mount((up + "usr").encode(), b"device", None, 0x5000, None)))
attempt("bound usr", lambda: open("device/planted", "w"))
`;

test.skipIf(process.geteuid?.() !== 0)(
  "class 1, 6, 8, 9, 10, 13: a build may chroot and bind, and reaches nothing of the host by it",
  { timeout: 60_000 },
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "sandpool-build-"));
    const output = join(dataDir, "output");
    const canary = mkdtempSync(join(tmpdir(), "sandpool-canary-"));
    for (const path of [dataDir, canary]) chmodSync(path, 0o755);
    writeFileSync(join(canary, "secret"), "canary", { mode: 0o644 });
    const driver = createDriver("namespace", { dataDir, agentPath: findAgent() });
    try {
      rmSync(output, { force: true });
      const build = mkdtempSync(`${output}-`);
      chmodSync(build, 0o777);
      const before = readFileSync("/proc/sys/kernel/core_pattern", "utf8");
      const sandbox = await driver.start(
        {
          ...{ id: "image-attempt", cwd: "/build", capabilities: "build", rootImage: "host", network: "none" },
          ...{ memoryBytes: 2 ** 28, processes: 64, argv: ["/usr/bin/python3", "-c", script] },
          mounts: [{ source: build, target: "/build", readOnly: false }],
          environ: { CANARY: join(canary, "secret").slice(1) },
        },
        AbortSignal.timeout(60_000),
      );
      await sandbox.exited;
      const said = sandbox.stderr().trim().split("\n");
      await sandbox.kill();
      expect(said).toEqual([
        ...["chroot did", "own root did", "canary failed", "sysctl failed", "modprobe failed", "sysrq failed"],
        ...["usr failed", "device failed", "disk failed", "proc failed", "cgroup failed", "remount failed"],
        ...["namespace failed", "bind did", "bound usr failed"],
      ]);
      expect(readFileSync("/proc/sys/kernel/core_pattern", "utf8")).toBe(before);
      expect(readdirSync(canary)).toEqual(["secret"]);
    } finally {
      await driver.close?.();
      expect(leftovers(dataDir)).toEqual([]);
      rmSync(hostFolders(dataDir).own, { recursive: true, force: true });
      for (const path of [dataDir, canary]) rmSync(path, { recursive: true, force: true });
    }
  },
);
