import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { MachineProbe } from "../../../src/drivers/machine.ts";
import { hostFolders } from "../../../src/host/folders.ts";
import { findTool } from "../../../src/host/tools.ts";
import { LIMIT_MS } from "./support.ts";

const runc = findTool("runc");
const isMissing = process.geteuid?.() !== 0 || runc === null;
if (isMissing) console.log("skipped: versions of runc: needs root and runc");

describe.skipIf(isMissing)("class 18: a runtime with a known way out", { timeout: LIMIT_MS }, () => {
  test.each([
    ["1.1.11", true],
    ["1.1.12", false],
    // Distributions mend old versions.
    ["1.1.5+ds1", false],
  ])("class 18: runc %s is refused: %s", (version, isRefused) => {
    const probe = probeWith(version);
    expect(probe.available).toBe(false);
    // One that is not refused is started, which this one does not stand.
    const reason = isRefused ? /CVE-2024-21626/ : /a first container could not be started/;
    expect(probe.reason).toMatch(reason);
    expect(probe.hint).toMatch(isRefused ? /upgrade runc/ : /./);
  });
});

/** What the driver says where another program stands at runc's place; only in a mount namespace of the question's own. */
function probeWith(version: string): MachineProbe {
  const dataDir = mkdtempSync(`${tmpdir()}/sandpool-floor-`);
  const program = fileURLToPath(new URL("probe-machines.ts", import.meta.url));
  try {
    writeFileSync(`${dataDir}/runc`, `#!/bin/sh\necho runc version ${version}\n`, { mode: 0o755 });
    const script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"';
    const question = [process.execPath, program, "namespace", dataDir];
    const argv = ["--mount", "/bin/sh", "-c", script, "sh", `${dataDir}/runc`, runc ?? "", ...question];
    return JSON.parse(execFileSync("unshare", argv, { encoding: "utf8" })) as MachineProbe;
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
    rmSync(hostFolders(dataDir).own, { recursive: true, force: true });
  }
}
