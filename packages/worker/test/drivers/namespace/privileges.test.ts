import { openSync } from "node:fs";
import { createServer } from "node:net";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { attemptInside, attemptOutside, LIMIT_MS, leftovers, makeHost } from "../support.ts";

describe.skipIf(process.geteuid?.() !== 0)("what a sandbox may do", { timeout: LIMIT_MS }, () => {
  const host = makeHost();
  afterEach(async () => {
    expect(await leftovers(host)).toEqual([]);
  });
  afterAll(() => host.remove());

  test("without capabilities every set is empty and new privileges are off", async () => {
    const none = "0000000000000000";
    const sets = { CapInh: none, CapPrm: none, CapEff: none, CapBnd: none, CapAmb: none };
    expect(await attemptInside(host, ["status"])).toEqual({ did: { ...sets, NoNewPrivs: "1", Seccomp: "2" } });
  });

  test("a pool's agent has exactly its nine, none of them inheritable", async () => {
    // CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, KILL 5, SETGID 6, SETUID 7, SETPCAP 8, SYS_PTRACE 19, SYS_ADMIN 21.
    const held = [0, 1, 3, 5, 6, 7, 8, 19, 21]
      .reduce((sum, bit) => sum + 2 ** bit, 0)
      .toString(16)
      .padStart(16, "0");
    const none = "0000000000000000";
    const sets = { CapInh: none, CapPrm: held, CapEff: held, CapBnd: held, CapAmb: none };
    const outcome = await attemptInside(host, ["status"], { capabilities: "pool" });
    expect(outcome).toEqual({ did: { ...sets, NoNewPrivs: "1", Seccomp: "2" } });
  });

  const dangerous = {
    keyctl: "EPERM",
    bpf: "EPERM",
    io_uring_setup: "EPERM",
    userfaultfd: "EPERM",
    perf_event_open: "EPERM",
    setns: "EPERM",
    chroot: "EPERM",
    ptrace: "EPERM",
    clone_user: "EPERM",
    clone3: "ENOSYS",
    fsopen: "ENOSYS",
    clone_plain: "ok",
  };

  test("dangerous system calls are refused by name, without capabilities", async () => {
    const refused = { mount: "EPERM", unshare_user: "EPERM", unshare_net: "EPERM", unshare_mounts_and_user: "EPERM" };
    expect(await attemptInside(host, ["probes"])).toEqual({ did: { ...dangerous, ...refused } });
  });

  test("dangerous system calls are refused by name, for a pool's agent, which may mount", async () => {
    const refused = { mount: "ok", unshare_user: "ENOSYS", unshare_net: "ENOSYS", unshare_mounts_and_user: "ENOSYS" };
    expect(await attemptInside(host, ["probes"], { capabilities: "pool" })).toEqual({
      did: { ...dangerous, ...refused },
    });
  });

  test("the same calls work where nothing is refused, so the arguments are right", async () => {
    const { did } = (await attemptOutside(["probes"])) as { did: Record<string, string> };
    const { clone3, io_uring_setup: ring, perf_event_open: perf, ...rest } = did;
    // An empty clone3 is invalid; io_uring and perf may be switched off on a host by its owner.
    expect(clone3).toBe("EINVAL");
    expect(["ok", "EPERM", "ENOSYS"]).toContain(ring);
    expect(["ok", "EACCES", "ENOENT", "ENOSYS"]).toContain(perf);
    expect(new Set(Object.values(rest))).toEqual(new Set(["ok"]));
  });

  test("a pool's agent can hand a detached quota mount to another mount namespace, and only there it is seen", async () => {
    const outcome = await attemptInside(host, ["hand_over_mount"], { capabilities: "pool" });
    expect(outcome).toEqual({ did: ["ok", "ok", "ok", "here", []] });
    const refused = await attemptInside(host, ["hand_over_mount"], { capabilities: "none" });
    expect(refused).not.toEqual(outcome);
  });

  test("no descriptor of the server gets in but the four", async () => {
    const file = openSync("/etc/hostname", "r");
    const server = createServer().listen(0, "127.0.0.1");
    try {
      expect(file).toBeGreaterThan(3);
      expect(await attemptInside(host, ["descriptors"])).toEqual({ did: [0, 1, 2, 3] });
    } finally {
      server.close();
    }
  });

  test("no variable of the server gets in", async () => {
    process.env.SANDPOOL_TEST_SECRET = "canary";
    try {
      const outcome = await attemptInside(host, ["environment"], { environ: { GIVEN: "yes" } });
      // The last two are Python's own doing (PEP 538) and the runtime's.
      expect(outcome).toMatchObject({ did: { GIVEN: "yes", PATH: "/usr/local/bin:/usr/bin:/bin" } });
      expect(Object.keys((outcome as { did: object }).did)).not.toContain("SANDPOOL_TEST_SECRET");
    } finally {
      delete process.env.SANDPOOL_TEST_SECRET;
    }
  });

  test("a working directory below /proc is refused, the shape of CVE-2024-21626", async () => {
    for (let descriptor = 0; descriptor < 64; descriptor++) {
      await expect(attemptInside(host, ["pids"], { cwd: `/proc/self/fd/${descriptor}` })).rejects.toThrow(
        /outside \/proc/,
      );
    }
  });
});
