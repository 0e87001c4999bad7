import { statfs } from "node:fs/promises";
import { formatSize, type SandpoolError } from "@sandpool/protocol";
import type { Driver, Sandbox, SandboxExit, SandboxMount } from "../../drivers/driver.ts";
import type { EgressProxy } from "../../layers/egress.ts";
import { proxyPort } from "../../layers/install.ts";
import type { ImageOptions } from "../contract.ts";
import { imageFailed } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import type { Recipe } from "./recipe.ts";

export interface RunInput {
  id: string;
  recipe: Recipe;
  driver: Driver;
  work: string;
  mounts: SandboxMount[];
  proxy: EgressProxy;
  memoryBytes: number;
  limits: ImageLimits;
}

const watchMs = 500;
const processes = 512;

/** Runs `build.sh` in a sandbox, which is gone when this ends. @throws `image_failed` with its last lines */
export async function runBuild(input: RunInput, options: ImageOptions): Promise<void> {
  const { id, mounts, proxy, memoryBytes } = input;
  const proxyAddress = `http://127.0.0.1:${proxyPort}`;
  const relay = ["relay", "--listen", `127.0.0.1:${proxyPort}`, "--unix", "/run/sandpool/proxy.sock", "--"];
  const sandbox = await input.driver.start(
    {
      ...{ id, mounts, memoryBytes, processes, cwd: "/build", capabilities: "build", rootImage: "host" },
      argv: ["/sandpool/agent", ...relay, "/bin/sh", "/sandpool/build.sh"],
      environ: {
        ...{ PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/build", LC_ALL: "C.UTF-8" },
        ...{ TMPDIR: "/build", http_proxy: proxyAddress, https_proxy: proxyAddress },
      },
      network: { proxySocket: proxy.socketPath },
    },
    options.signal,
  );
  try {
    const { exit, stopped } = await watch(input, sandbox, options);
    options.signal.throwIfAborted();
    if (stopped !== null || exit.code !== 0) throw buildFailed(input, sandbox.stderr(), exit, stopped);
  } finally {
    await sandbox.kill();
  }
}

async function watch(
  { work, limits }: RunInput,
  sandbox: Sandbox,
  { signal, onProgress }: ImageOptions,
): Promise<{ exit: SandboxExit; stopped: string | null }> {
  let stopped: string | null = null;
  const stop = (reason: string | null): void => {
    stopped ??= reason;
    void sandbox.kill().catch(() => {});
  };
  const onAbort = (): void => stop(null);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const lines = new NewLines();
  const tell = (): void => {
    for (const text of lines.of(sandbox.stderr()))
      onProgress?.({ phase: "install", done: lines.count, total: 0, text });
  };
  const timer = setInterval(async () => {
    tell();
    const disk = await statfs(work).catch(() => null);
    const freeBytes = disk === null ? Number.POSITIVE_INFINITY : disk.bavail * disk.bsize;
    if (freeBytes < limits.freeDiskBytes)
      stop(`the host's free disk space fell below ${formatSize(limits.freeDiskBytes)}`);
  }, watchMs);
  try {
    const exit = await sandbox.exited;
    tell();
    return { exit, stopped };
  } finally {
    clearInterval(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** The sandbox's `/etc` is a made one; apt misses its own folder there. */
function isNoise(line: string): boolean {
  return line.startsWith("W: Unable to read /etc/apt/");
}

/** Whole lines of a text that grows at its end and loses its begin. */
class NewLines {
  count = 0;
  #before = "";

  of(text: string): string[] {
    const known = this.#before.slice(-200);
    const at = known === "" ? 0 : text.lastIndexOf(known);
    const fresh = text.slice(at === -1 ? 0 : at + known.length);
    const end = fresh.lastIndexOf("\n");
    if (end === -1) return [];
    this.#before = text.slice(0, text.length - fresh.length + end + 1);
    const lines = fresh
      .slice(0, end)
      .split("\n")
      .filter((line) => line.trim() !== "" && !isNoise(line));
    this.count += lines.length;
    return lines;
  }
}

function buildFailed(
  { recipe, proxy }: RunInput,
  output: string,
  exit: SandboxExit,
  stopped: string | null,
): SandpoolError {
  const lines = output.trimEnd().split("\n").slice(-30).join("\n").slice(-4000);
  const how =
    stopped ?? (exit.signal === null ? `it ended with exit code ${exit.code}` : `it was ended by ${exit.signal}`);
  const refused = proxy.refused();
  return imageFailed(`The image ${recipe.name} could not be built: ${how}.\n${lines}`, {
    hint:
      refused.length > 0
        ? `Only the package indexes can be reached; refused: ${refused.join(", ")}.`
        : "See the last lines; a mirror that is out of date or cannot be reached is the usual cause.",
    details: { recipe: recipe.name, exit_code: exit.code, signal: exit.signal, output: lines, refused },
  });
}
