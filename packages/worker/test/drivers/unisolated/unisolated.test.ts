import { afterAll, describe, expect, test } from "vitest";
import { isAlive, ownIdentity, type ProcessIdentity, readStartTime } from "../../../src/host/identity.ts";
import { LIMIT_MS, makeHost, readAll, specOf } from "../support.ts";

const signal = (): AbortSignal => AbortSignal.timeout(LIMIT_MS);

describe("the unisolated driver", { timeout: LIMIT_MS }, () => {
  const host = makeHost("unisolated");
  afterAll(() => host.remove());

  test("it is available and warns, in the probe and at each start", async () => {
    const probe = await host.driver.probe();
    expect(probe).toMatchObject({ available: true, mode: "none", rowMemory: "rlimit" });
    expect(probe.warnings).toEqual([expect.stringContaining("protects nothing")]);
    const sandbox = await host.driver.start(specOf(), signal());
    expect(host.warnings).toEqual(probe.warnings);
    expect(sandbox.isolated).toBe(false);
    await sandbox.kill();
  });

  test("the channel is descriptor 3 and the exit code arrives", async () => {
    const sandbox = await host.driver.start(
      specOf({ argv: ["/bin/sh", "-c", "echo on 3 >&3; echo on 2 >&2; exit 4"] }),
      signal(),
    );
    expect(await readAll(sandbox)).toBe("on 3\n");
    expect(await sandbox.exited).toEqual({ code: 4, signal: null });
    expect(sandbox.stderr()).toBe("on 2\n");
    await sandbox.kill();
  });

  test("no variable of the server gets in", async () => {
    process.env.SANDPOOL_TEST_SECRET = "canary";
    try {
      const sandbox = await host.driver.start(
        specOf({ argv: ["/bin/sh", "-c", "env >&3"], environ: { GIVEN: "yes" } }),
        signal(),
      );
      const text = await readAll(sandbox);
      expect(text).toContain("GIVEN=yes");
      expect(text).not.toContain("SANDPOOL_TEST_SECRET");
      await sandbox.kill();
    } finally {
      delete process.env.SANDPOOL_TEST_SECRET;
    }
  });

  // Each leaves its parent in another way; each prints its pid first.
  const escapes = {
    child: "sh -c 'echo $$ >&3; exec sleep 1000' & wait",
    "own session": "setsid sh -c 'echo $$ >&3; exec sleep 1000' & wait",
    "daemon in its own session": "(setsid sh -c 'echo $$ >&3; exec sleep 1000' &) ; sleep 1000",
    "daemon without the marked environment": "(sh -c 'echo $$ >&3; exec env -i sleep 1000' &) ; sleep 1000",
    "ignoring every polite signal": "sh -c 'trap \"\" TERM HUP INT; echo $$ >&3; while :; do sleep 1000; done' & wait",
  };

  test.each(Object.entries(escapes))("kill ends a process that is a %s", async (_, script) => {
    const sandbox = await host.driver.start(specOf({ argv: ["/bin/sh", "-c", script] }), signal());
    const identity = await nextPid(sandbox.channel);
    expect(isAlive(identity)).toBe(true);
    await Promise.all([sandbox.kill(), sandbox.kill()]);
    expect(isAlive(identity)).toBe(false);
    expect(await sandbox.exited).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("what the first process leaves behind ends with it", async () => {
    // The descriptor does not block: a read without a line to read fails at once.
    const script = "(setsid sh -c 'echo $$ >&3; exec sleep 1000' &) ; until read line <&3; do sleep 0.01; done; exit 0";
    const sandbox = await host.driver.start(specOf({ argv: ["/bin/sh", "-c", script] }), signal());
    const identity = await nextPid(sandbox.channel);
    sandbox.channel.write("\n");
    expect(await sandbox.exited).toEqual({ code: 0, signal: null });
    expect(isAlive(identity)).toBe(false);
    await sandbox.kill();
  });

  test("a process of somebody else is never ended, whatever its pid once was", async () => {
    const sandbox = await host.driver.start(specOf(), signal());
    await sandbox.exited;
    const before = readStartTime(process.pid);
    await sandbox.kill();
    expect(readStartTime(process.pid)).toBe(before);
  });

  test("a program that does not exist is named", async () => {
    await expect(host.driver.start(specOf({ argv: ["/no/such/program"] }), signal())).rejects.toThrow(
      /\/no\/such\/program/,
    );
  });
});

function nextPid(channel: NodeJS.ReadableStream): Promise<ProcessIdentity> {
  return new Promise((resolve) => {
    channel.once("data", (chunk: Buffer) => {
      const pid = Number(String(chunk).trim());
      resolve({ ...ownIdentity(), pid, startTime: readStartTime(pid) ?? "" });
    });
  });
}
