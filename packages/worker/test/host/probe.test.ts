import { describe, expect, test } from "vitest";
import { isAlive, ownIdentity, readStat } from "../../src/host/identity.ts";
import { probeHost } from "../../src/host/probe.ts";
import { installCommand } from "../../src/host/tools.ts";

describe("what the host offers", { timeout: 60_000 }, () => {
  test("a driver that cannot run says why and what to do; one that can says neither", async () => {
    const report = await probeHost("/nonexistent/data", null);
    expect(report.drivers.map(({ name }) => name)).toEqual(["namespace", "gvisor", "unisolated"]);
    for (const driver of report.drivers) {
      expect(driver.reason === null).toBe(driver.available);
      expect(driver.hint === null).toBe(driver.available);
    }
    expect(report.limits.cores).toBeGreaterThan(0);
    expect(report.limits.openFiles).toBeGreaterThan(0);
  });

  test("a tool that is missing comes with the command that installs it", async () => {
    const { tools } = await probeHost("/nonexistent/data", null);
    for (const tool of tools) expect(tool.install === null).toBe(tool.path !== null);
  });

  test.each([
    ["ID=debian", "apt-get install -y uidmap"],
    ["ID=ubuntu\nID_LIKE=debian", "apt-get install -y uidmap"],
    ['ID="rocky"\nID_LIKE="rhel centos fedora"', "dnf install -y shadow-utils"],
    ["ID=arch", "pacman -S shadow"],
    ["ID=alpine", "apk add shadow-uidmap"],
    ["", "install uidmap with the system's package manager"],
  ])("on %j newuidmap comes by %j", (release, command) => {
    expect(installCommand("newuidmap", release)).toBe(command);
  });
});

describe("identity of a process", () => {
  test("a recycled pid, an earlier boot and a dead process are told apart from this one", () => {
    const own = ownIdentity();
    expect(isAlive(own)).toBe(true);
    expect(isAlive({ ...own, startTime: `${Number(own.startTime) + 1}` })).toBe(false);
    expect(isAlive({ ...own, bootId: "another" })).toBe(false);
    expect(isAlive({ ...own, pid: 2 ** 22 + 1 })).toBe(false);
  });

  test("stat is read past a name with spaces and parentheses", () => {
    const title = process.title;
    process.title = "a) R 1 (b";
    try {
      expect(readStat(process.pid)).toMatchObject({ pid: process.pid, parent: process.ppid });
    } finally {
      process.title = title;
    }
  });
});
