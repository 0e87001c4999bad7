import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { formatSize, type SandpoolError } from "@sandpool/protocol";
import type { Driver, Sandbox, SandboxExit } from "../drivers/driver.ts";
import { fail } from "../fail.ts";
import { removeTree } from "../host/remove-tree.ts";
import { runTool } from "../host/run.ts";
import { findAllowedHosts } from "./allowed-hosts.ts";
import type { Dependencies } from "./dependencies.ts";
import { type EgressProxy, startEgressProxy } from "./egress.ts";
import type { PackageIndex } from "./index.ts";
import { insideVenv, installArgv, installEnviron, proxyPort } from "./install.ts";
import type { LayerProgress } from "./store.ts";
import type { UvProgram } from "./uv.ts";

export interface BuildInputs {
  id: string;
  driver: Driver;
  uv: UvProgram;
  index: PackageIndex;
  dependencies: Dependencies;
  /** The unpacked archive. */
  tree: string;
  pythonPath: string;
  privateHosts: readonly string[];
  memoryBytes: number;
  downloadBytes: number;
  freeDiskBytes: number;
  timeoutMs: number;
}

const certificateFiles = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/cert.pem",
];
const watchMs = 500;
const changeTimeoutMs = 10 * 60_000;

/**
 * Installs dependencies into `folder/venv` inside a sandbox without capabilities, whose only way out is the egress proxy. Afterwards everything
 * belongs to the host's root, which no sandbox can be.
 *
 * @throws `dependency_failed` with uv's last lines
 */
export async function buildIsolated(
  inputs: BuildInputs,
  folder: string,
  signal: AbortSignal,
  progress: LayerProgress,
): Promise<void> {
  const venv = join(folder, "venv");
  await mkdir(venv);
  // The sandbox's user is unknown until it runs; nobody else can pass through the folder above.
  await chmod(venv, 0o777);
  const certificates = findCertificates();
  const text = certificates === null ? null : await readFile(certificates, "utf8").catch(() => null);
  const hosts = await findAllowedHosts(inputs.index, inputs.dependencies.names, inputs.privateHosts, text, signal);
  const socketFolder = await mkdtemp(join(dirname(folder), "egress-"));
  await chmod(socketFolder, 0o711);
  let proxy: EgressProxy | null = null;
  try {
    const { local } = inputs.dependencies;
    const source = local ? await copySource(inputs.tree, join(dirname(folder), "source")) : inputs.tree;
    proxy = await startEgressProxy(socketFolder, hosts, inputs.downloadBytes);
    await runInstall(inputs, source, venv, proxy, certificates, signal, progress);
    for (const temporary of [".cache", ".tmp"]) await removeTree(join(venv, temporary));
    await takeOver(venv);
  } finally {
    await proxy?.close();
    await rm(socketFolder, { recursive: true, force: true });
  }
}

/** Packages of the archive itself are built where they lie, and their builds write beside them. It goes with the folder it is in. */
async function copySource(tree: string, copy: string): Promise<string> {
  await change("cp", ["-R", "-P", "--", tree, copy]);
  await change("chmod", ["-R", "a+rwX", "--", copy]);
  return copy;
}

async function runInstall(
  inputs: BuildInputs,
  source: string,
  venv: string,
  proxy: EgressProxy,
  certificates: string | null,
  signal: AbortSignal,
  progress: LayerProgress,
): Promise<void> {
  const mounts = [
    { source: venv, target: insideVenv, readOnly: false },
    { source: inputs.uv.path, target: "/sandpool/uv", readOnly: true },
    { source, target: "/env", readOnly: source === inputs.tree },
  ];
  if (certificates !== null)
    mounts.push({ source: certificates, target: "/sandpool/certificates.pem", readOnly: true });
  const relay = [
    "/sandpool/agent",
    "relay",
    "--listen",
    `127.0.0.1:${proxyPort}`,
    "--unix",
    "/run/sandpool/proxy.sock",
    "--",
  ];
  const sandbox = await inputs.driver.start(
    {
      id: inputs.id,
      mounts,
      argv: [
        ...relay,
        ...installArgv("/sandpool/uv", inputs.pythonPath, insideVenv, `/env/${inputs.dependencies.file}`),
      ],
      cwd: "/env",
      environ: installEnviron(
        inputs.index,
        insideVenv,
        certificates === null ? null : "/sandpool/certificates.pem",
        true,
      ),
      memoryBytes: inputs.memoryBytes,
      processes: 512,
      network: { proxySocket: proxy.socketPath },
      capabilities: "none",
      rootImage: "host",
      pythonPath: inputs.pythonPath,
    },
    signal,
  );
  try {
    const { exit, stopped } = await watchInstall(inputs, sandbox, venv, signal, progress);
    signal.throwIfAborted();
    if (stopped !== null || exit.code !== 0) throw installFailed(sandbox.stderr(), exit, stopped, proxy.refused());
  } finally {
    await sandbox.kill();
  }
}

async function watchInstall(
  inputs: BuildInputs,
  sandbox: Sandbox,
  venv: string,
  signal: AbortSignal,
  progress: LayerProgress,
): Promise<{ exit: SandboxExit; stopped: string | null }> {
  let stopped: string | null = null;
  const stop = (reason: string | null): void => {
    stopped ??= reason;
    void sandbox.kill().catch(() => {});
  };
  const onAbort = (): void => stop(null);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const endsAtMs = performance.now() + inputs.timeoutMs;
  const timer = setInterval(async () => {
    progress(...installProgress(sandbox.stderr()));
    if (performance.now() > endsAtMs) stop(`it took over ${inputs.timeoutMs / 1000} s`);
    const disk = await statfs(venv).catch(() => null);
    const freeBytes = disk === null ? Number.POSITIVE_INFINITY : disk.bavail * disk.bsize;
    if (freeBytes < inputs.freeDiskBytes)
      stop(`the host's free disk space fell below ${formatSize(inputs.freeDiskBytes)}`);
  }, watchMs);
  try {
    const exit = await sandbox.exited;
    if (exit.code === 0) progress(...installProgress(sandbox.stderr()));
    return { exit, stopped };
  } finally {
    clearInterval(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** uv says when it has resolved, prepared and installed; there is no finer measure in its output. */
export function installProgress(output: string): [done: number, total: number] {
  const steps = [/^Creating virtual environment/m, /^Resolved /m, /^Prepared /m, /^Installed /m];
  return [steps.filter((step) => step.test(output)).length, steps.length];
}

/** `dependency_failed`, with what uv said and what the proxy refused. */
export function installFailed(
  output: string,
  exit: SandboxExit,
  stopped: string | null,
  refused: readonly string[],
): SandpoolError {
  const lines = output.trimEnd().split("\n").slice(-30).join("\n").slice(-4000);
  const how =
    stopped ?? (exit.signal === null ? `uv ended with exit code ${exit.code}` : `it was ended by ${exit.signal}`);
  return fail("dependency_failed", `The dependencies could not be installed: ${how}.\n${lines}`, {
    hint:
      refused.length > 0
        ? `Only the package index and its file hosts can be reached; refused: ${refused.join(", ")}.`
        : "Try the same file with `uv pip install -r` on your machine.",
    details: { exit_code: exit.code, signal: exit.signal, output: lines, refused },
  });
}

/** The certificates that the host trusts, for uv inside the sandbox. */
export function findCertificates(): string | null {
  return [process.env.SSL_CERT_FILE ?? "", ...certificateFiles].find((path) => path !== "" && existsSync(path)) ?? null;
}

/**
 * Gives a tree that a sandbox wrote to the host's root and takes its set-id and foreign write bits. Links are never followed. By the host's
 * tools, which go from folder to folder: such a tree may be deeper than a path can be long.
 */
async function takeOver(path: string): Promise<void> {
  if (process.geteuid?.() === 0) await change("chown", ["-hR", "0:0", "--", path]);
  await change("chmod", ["-R", "u+rwX,go+rX,go-w,a-st", "--", path]);
}

async function change(tool: string, args: readonly string[]): Promise<void> {
  const { code, signal, stderr } = await runTool(tool, args, { timeoutMs: changeTimeoutMs });
  if (code !== 0) throw new Error(`${tool} for a layer ended with ${signal ?? code}: ${stderr.trim().slice(0, 300)}`);
}
