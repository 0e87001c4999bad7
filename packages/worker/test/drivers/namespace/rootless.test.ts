import { spawn } from "node:child_process";
import { chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findTool } from "../../../src/host/tools.ts";
import { LIMIT_MS } from "../support.ts";

const UID = 54_321;
const FIXTURE = fileURLToPath(new URL("../fixtures/rootless.ts", import.meta.url));
const missing = ["newuidmap", "newgidmap", "runc", "setpriv", "unshare"].filter((name) => findTool(name) === null);
const reason =
  process.geteuid?.() !== 0 ? "making an ordinary user takes root" : missing.length > 0 ? `no ${missing}` : null;
if (reason !== null) console.log(`skipped: rootless sandboxes: ${reason}`);

describe.skipIf(reason !== null)("as an ordinary user", { timeout: LIMIT_MS }, () => {
  let home = "";
  beforeAll(() => {
    home = mkdtempSync(`${tmpdir()}/sandpool-rootless-`);
    writeFileSync(`${home}/secret`, "canary");
    chownSync(home, UID, UID);
  });
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  /** The user exists in a mount namespace of the test's own; the host's accounts are never touched. */
  async function runAs(subordinate: string): Promise<Record<string, unknown>> {
    const files = {
      passwd: `tester:x:${UID}:${UID}::${home}:/bin/sh\n`,
      group: `tester:x:${UID}:\n`,
      subuid: subordinate,
      subgid: subordinate,
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(`${home}/${name}`, text);
    const copy = Object.keys(files).map((name) => `cp ${home}/${name} ${home}/etc/${name}`);
    const etc = [`rm -rf ${home}/etc`, `cp -a /etc ${home}/etc`, ...copy, `mount --bind ${home}/etc /etc`];
    // The test's own mount namespace: what is made there is gone with it.
    const command = `set -e; ${etc.join("; ")}; exec setpriv --reuid ${UID} --regid ${UID} --clear-groups --inh-caps=-all --bounding-set=+all "$@"`;
    const args = ["--mount", "sh", "-c", command, "sh", process.execPath, FIXTURE];
    const child = spawn("unshare", args, { env: { PATH: process.env.PATH ?? "", HOME: home, XDG_RUNTIME_DIR: home } });
    const output = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk) => (output.stdout += chunk));
    child.stderr.on("data", (chunk) => (output.stderr += chunk));
    await new Promise((resolve) => child.once("close", resolve));
    if (output.stdout === "") throw new Error(output.stderr);
    return JSON.parse(output.stdout) as Record<string, unknown>;
  }

  test("sandboxes run without root, the host's accounts and the user's files are out of sight, nothing is left", async () => {
    const report = await runAs("tester:300000:65536\n");
    expect(report.probe).toMatchObject({ available: true, mode: "rootless", rowMemory: "rlimit", reason: null });
    expect((report.probe as { warnings: string[] }).warnings.join()).toMatch(/share one range of host uids/);
    expect(report.map).toEqual({ did: UID });
    expect(report.status).toMatchObject({ did: { CapInh: "0000000000000000", NoNewPrivs: "1", Seccomp: "2" } });
    expect(report.shadow).toEqual({ failed: "ENOENT" });
    expect(report.home).toEqual({ failed: "ENOENT" });
    expect(report.ids).toEqual({ did: [10_017, 10_017] });
    expect(report.descriptors).toEqual({ did: [0, 1, 2, 3] });
    expect(report.left).toEqual([]);
  });

  test("without subordinate ids the probe names both files and the command", async () => {
    const { probe } = await runAs("somebody:300000:65536\n");
    expect(probe).toMatchObject({ available: false });
    const { reason, hint } = probe as { reason: string; hint: string };
    expect(reason).toBe("/etc/subuid and /etc/subgid have no range for the user tester; rootless mode needs one");
    expect(hint).toBe("usermod --add-subuids 365536-431071 --add-subgids 365536-431071 tester");
  });
});
