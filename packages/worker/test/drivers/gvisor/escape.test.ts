import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { attemptInside, attemptOutside, LIMIT_MS, leftovers, makeHost, NO_NAMESPACES } from "../support.ts";

// The classes of escapes that we know, against the host. What a row may not do to another: ../../pools/real-gvisor.test.ts.
const host = makeHost("gvisor");
const probe = await host.driver.probe();
const pool = { capabilities: "pool" as const };

describe.skipIf(!probe.available)("attempts from inside a sandbox of gvisor", { timeout: LIMIT_MS }, () => {
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

  test("class 1: no descriptor of the host is open but the four", async () => {
    expect(await attemptInside(host, ["descriptors"], pool)).toEqual({ did: [0, 1, 2, 3] });
  });

  test("class 2: the agent's program cannot be written, and files of the host are not there", async () => {
    for (const path of ["/sandpool/agent", "/proc/1/exe", "/usr/bin/env"]) {
      const outcome = await attemptInside(host, ["open_for_writing", path], pool);
      expect(outcome).toEqual({ failed: expect.stringMatching(/EROFS|EACCES|ETXTBSY|EPERM/) });
    }
    expect(await attemptInside(host, ["read_file", `${canaries}/secret`], pool)).toEqual({ failed: "ENOENT" });
    expect(await attemptOutside(["read_file", `${canaries}/secret`])).toEqual({ did: "canary" });
  });

  test("a read-only mount cannot be written, whatever its mode bits", async () => {
    const mounts = [{ source: `${canaries}/env`, target: "/env", readOnly: true }];
    const inside = await attemptInside(host, ["write_file", "/env/code", "changed"], { mounts, ...pool });
    expect(inside).toEqual({ failed: "EROFS" });
    expect(readFileSync(`${canaries}/env/code`, "utf8")).toBe("canary");
    writeFileSync(`${canaries}/copy`, "canary");
    expect(await attemptOutside(["write_file", `${canaries}/copy`, "broken"])).toEqual({ did: "written" });
  });

  test("class 8: a sysctl written inside is one of another kernel", async () => {
    const sysctl = "/proc/sys/net/ipv4/ip_forward";
    const before = readFileSync(sysctl, "utf8");
    await attemptInside(host, ["write_file", sysctl, before.trim() === "1" ? "0" : "1"], pool);
    expect(readFileSync(sysctl, "utf8")).toBe(before);
    expect(await attemptOutside(["write_file", sysctl, "1"])).toEqual({ did: "written" });
  });

  test("class 10: no device can be made, and a setuid program of the host's root gives nothing", async () => {
    expect(await attemptInside(host, ["make_node", "/tmp/null"], pool)).toEqual({ failed: "EPERM" });
    expect(await attemptOutside(["make_node", `${canaries}/null`])).toEqual({ did: "made" });
    copyFileSync("/usr/bin/id", `${canaries}/env/id`);
    chmodSync(`${canaries}/env/id`, 0o4755);
    const mounts = [{ source: `${canaries}/env`, target: "/env", readOnly: true }];
    const inside = await attemptInside(host, ["run_setuid", "/env/id", 1234], { mounts, ...pool });
    expect(inside).toEqual({ did: "1234" });
    expect(await attemptOutside(["run_setuid", `${canaries}/env/id`, 1234])).toEqual({ did: "0" });
  });

  test("class 11: a process of the host can be neither seen nor killed", async () => {
    const canary = spawn("sleep", ["60"], { stdio: "ignore" });
    try {
      expect(await attemptInside(host, ["kill_process", canary.pid ?? 0], pool)).toEqual({ failed: "ESRCH" });
      expect(await attemptInside(host, ["pids"], pool)).toEqual({ did: [1] });
      expect(canary.signalCode).toBeNull();
      const ended = new Promise((resolve) => canary.once("exit", (_, signal) => resolve(signal)));
      expect(await attemptOutside(["kill_process", canary.pid ?? 0], NO_NAMESPACES)).toEqual({ did: "killed" });
      expect(await ended).toBe("SIGKILL");
    } finally {
      canary.kill("SIGKILL");
    }
  });

  test("class 15: loopback, abstract sockets and sockets in mounted folders of the host cannot be reached", async () => {
    const name = `sandpool-canary-${process.pid}-pool`;
    const path = `${canaries}/env/socket`;
    const [loopback, abstract, named] = [await listen(0), await listen(`\0${name}`), await listen(path)];
    chmodSync(path, 0o777);
    const mounts = [{ source: `${canaries}/env`, target: "/env", readOnly: true }];
    try {
      const { port } = loopback.address() as { port: number };
      expect(await attemptInside(host, ["connect", port], pool)).toEqual({ failed: "ECONNREFUSED" });
      expect(await attemptInside(host, ["connect_abstract", name], pool)).toEqual({ failed: "ECONNREFUSED" });
      const inside = await attemptInside(host, ["connect_unix", "/env/socket"], { mounts, ...pool });
      expect(inside).toEqual({ failed: "ECONNREFUSED" });
      expect(await attemptOutside(["connect", port], NO_NAMESPACES)).toEqual({ did: "connected" });
      expect(await attemptOutside(["connect_abstract", name], NO_NAMESPACES)).toEqual({ did: "connected" });
      expect(await attemptOutside(["connect_unix", path], NO_NAMESPACES)).toEqual({ did: "" });
    } finally {
      for (const server of [loopback, abstract, named]) server.close();
    }
  });

  test("class 28: memory beyond the limit ends the sandbox, and only that", async () => {
    const neighbour = await attemptInside(host, ["allocate", 8 * 2 ** 20]);
    const limited = { memoryBytes: 64 * 2 ** 20 };
    expect(await attemptInside(host, ["allocate", 600 * 2 ** 20], limited)).toBeNull();
    expect(await attemptInside(host, ["fill_tmp", 250 * 2 ** 20], { memoryBytes: 2 ** 20 })).toBeNull();
    expect(neighbour).toEqual({ did: "allocated" });
  });
});

function listen(address: number | string): Promise<Server> {
  return new Promise((resolve) => {
    const server = createServer((socket) => socket.end());
    if (typeof address === "number") server.listen(address, "127.0.0.1", () => resolve(server));
    else server.listen(address, () => resolve(server));
  });
}
