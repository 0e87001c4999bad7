import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { findAgent } from "../../src/agent/find.ts";
import type { Driver, DriverName, Sandbox, SandboxSpec } from "../../src/drivers/driver.ts";
import { createDriver } from "../../src/drivers/drivers.ts";
import { hostFolders } from "../../src/host/folders.ts";
import { readStartTime } from "../../src/host/identity.ts";
import { readMounts } from "../../src/host/mountinfo.ts";
import { readSlotOwner } from "../../src/host/uids/claim.ts";

/** Never waited for on a machine that works; only a bound for one that hangs. */
export const LIMIT_MS = 60_000;
export const PYTHON = "/usr/bin/python3";
const FIXTURES = fileURLToPath(new URL("fixtures", import.meta.url));

/** One server's worth of a driver, on a data folder of its own. */
export interface Host {
  driver: Driver;
  dataDir: string;
  warnings: string[];
  remove(): void;
}

export function makeHost(name: DriverName = "namespace"): Host {
  const dataDir = mkdtempSync(`${tmpdir()}/sandpool-driver-`);
  chmodSync(dataDir, 0o755);
  const warnings: string[] = [];
  return {
    // The shim lies beside the agent.
    driver: createDriver(name, {
      dataDir,
      agentPath: name === "gvisor" ? findAgent() : null,
      warn: (message) => warnings.push(message),
    }),
    dataDir,
    warnings,
    remove: () => {
      rmSync(dataDir, { recursive: true, force: true });
      rmSync(hostFolders(dataDir).own, { recursive: true, force: true });
    },
  };
}

let counter = 0;

export function specOf(overrides: Partial<SandboxSpec> = {}): SandboxSpec {
  counter += 1;
  return {
    id: `t${process.pid}-${counter}`,
    mounts: [],
    argv: ["/bin/true"],
    environ: {},
    memoryBytes: 256 * 2 ** 20,
    processes: 64,
    network: "none",
    capabilities: "none",
    rootImage: "host",
    ...overrides,
  };
}

export type Outcome = { did: unknown } | { failed: string };

/** Runs one attempt inside a sandbox and kills the sandbox. Null: the attempt died before it could tell. */
export async function attemptInside(
  host: Host,
  attempt: readonly (string | number)[],
  overrides: Partial<SandboxSpec> = {},
): Promise<Outcome | null> {
  const { mounts = [], ...rest } = overrides;
  const sandbox = await host.driver.start(
    specOf({
      argv: [PYTHON, "/attempts/attempts.py", ...attempt.map(String)],
      mounts: [{ source: FIXTURES, target: "/attempts", readOnly: true }, ...mounts],
      ...rest,
    }),
    AbortSignal.timeout(LIMIT_MS),
  );
  try {
    const text = await readAll(sandbox);
    return text === "" ? null : (JSON.parse(text) as Outcome);
  } finally {
    await sandbox.kill();
  }
}

/** The same attempt with nothing around it but throwaway mount, pid, network, ipc and uts namespaces. */
export function attemptOutside(attempt: readonly (string | number)[], namespaces = THROWAWAY): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const [command = "", ...prefix] = namespaces;
    const args = [...prefix, PYTHON, `${FIXTURES}/attempts.py`, ...attempt.map(String)];
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let problems = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk;
    });
    child.stderr.on("data", (chunk: Buffer) => {
      problems += chunk;
    });
    child.once("close", () => {
      if (output === "") reject(new Error(problems));
      else resolve(JSON.parse(output) as Outcome);
    });
  });
}

const THROWAWAY = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "--ipc", "--uts"];
/** For attempts on canaries that live in the host's own namespaces: the test's server and its own child. */
export const NO_NAMESPACES = ["env"];

/** Everything the first process writes to its channel until it ends. */
export async function readAll(sandbox: Sandbox): Promise<string> {
  let text = "";
  sandbox.channel.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  await sandbox.exited;
  await new Promise((resolve) => {
    if (sandbox.channel.readableEnded || sandbox.channel.destroyed) resolve(null);
    sandbox.channel.once("close", resolve);
    sandbox.channel.once("end", resolve);
  });
  return text;
}

/** What this host still holds on the machine; empty when nothing leaked. */
export async function leftovers(host: Host): Promise<string[]> {
  const folders = hostFolders(host.dataDir);
  const left: string[] = [];
  for (const id of list(folders.sandboxes)) left.push(`folder ${id}`);
  for (const id of list(folders.runtimeRoot)) left.push(`container ${id}`);
  for (const slot of list(folders.uids)) {
    if ((await readSlotOwner(`${folders.uids}/${slot}`))?.key === folders.key) left.push(`uid slot ${slot}`);
  }
  for (const mount of readMounts()) {
    if (mount.point.includes(folders.key)) left.push(`mount ${mount.point}`);
    if (/^cgroup2?$/.test(mount.type)) {
      for (const group of list(mount.point))
        if (group.includes(folders.key)) left.push(`cgroup ${mount.point}/${group}`);
    }
  }
  for (const pid of list("/proc").filter((name) => /^\d+$/.test(name))) {
    const text = `${read(`/proc/${pid}/cgroup`)} ${read(`/proc/${pid}/cmdline`)}`;
    // A zombie waits for whoever adopted it; nothing of it runs.
    if (text.includes(folders.key) && readStartTime(Number(pid)) !== null) left.push(`process ${pid}`);
  }
  return left;
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
