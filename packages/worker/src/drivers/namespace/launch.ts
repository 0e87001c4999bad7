import { type ChildProcess, spawn } from "node:child_process";
import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import type { Duplex, Readable } from "node:stream";
import { TOOL_PATH } from "../../host/run.ts";
import type { ChannelEnds } from "../channel.ts";
import { DriverError, type SandboxExit } from "../driver.ts";
import { Tail } from "../tail.ts";
import { readRuntimeLog } from "./runtime.ts";

const pidPollMs = 100;

export interface Launched {
  process: ChildProcess;
  channel: Duplex;
  output: Tail;
  /** How the runtime's process ended; it waits for the container's. */
  ended: Promise<SandboxExit>;
}

/**
 * Runs a container in its runtime's foreground. The runtime stays as the container's parent: it alone can learn the exit status,
 * and when this server dies it still removes the container once the agent has left. `--detach` would leave both to nobody.
 */
export function launch(
  argv: readonly string[],
  environ: Readonly<Record<string, string>>,
  ends: ChannelEnds,
): Launched {
  // The runtime makes mount points with the umask it inherits, and Node can set none for a child: under 077 rows could not pass.
  const child = spawn("/bin/sh", ["-c", 'umask 022; exec "$@"', "sh", ...argv], {
    // Only these four descriptors; a session of its own, so that a terminal's Ctrl-C reaches the server and not the container.
    stdio: ["ignore", "pipe", "pipe", ends.childEnd],
    detached: true,
    env: { PATH: TOOL_PATH, ...environ },
    cwd: "/",
  });
  const output = new Tail();
  output.follow(child.stdout as Readable);
  output.follow(child.stderr as Readable);
  const channel = ends.take(child);
  const ended = new Promise<SandboxExit>((resolve) => {
    child.once("error", () => resolve({ code: 127, signal: null }));
    child.once("exit", (code, signal) => resolve(toExit(code, signal)));
  });
  return { process: child, channel, output, ended };
}

/**
 * Resolves once the runtime has noted in `folder` that the first process runs; `look` reads its pid from there, 0 until then.
 * By default it is the pid file, which runc writes at that moment.
 */
export async function waitUntilStarted(
  launched: Launched,
  folder: string,
  signal: AbortSignal,
  look = readPid,
): Promise<number> {
  const scope = new AbortController();
  try {
    const aborted = new Promise<never>((_, reject) => {
      const fail = (): void => reject(signal.reason);
      if (signal.aborted) fail();
      signal.addEventListener("abort", fail, { once: true, signal: scope.signal });
    });
    const early = await Promise.race([pidWritten(folder, look, scope.signal), aborted, launched.ended]);
    // A runtime may forget its note as soon as the program has ended.
    const pid = typeof early === "number" ? early : await look(folder);
    if (pid > 0) return pid;
    throw await startFailure(launched, folder, typeof early === "number" ? null : early);
  } finally {
    scope.abort();
  }
}

/**
 * The watch tells at once. It may begin after the file was written, or not at all when the host's watches are used up, so that the
 * file is looked at as well.
 */
function pidWritten(folder: string, look: typeof readPid, signal: AbortSignal): Promise<number> {
  return new Promise((resolve) => {
    const lookAgain = (): void => void look(folder).then((pid) => pid > 0 && resolve(pid));
    const timer = setInterval(lookAgain, pidPollMs);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    try {
      watch(folder, { signal }, lookAgain).on("error", () => undefined);
    } catch {
      // The timer is enough.
    }
    lookAgain();
  });
}

export async function readPid(folder: string): Promise<number> {
  return Number(await readFile(`${folder}/pid`, "latin1").catch(() => "0"));
}

async function startFailure(launched: Launched, folder: string, exit: SandboxExit | null): Promise<DriverError> {
  const log = await readRuntimeLog(`${folder}/log`);
  const said = log || launched.output.text().slice(-2048) || "it said nothing";
  return new DriverError(
    "sandbox_start_failed",
    `the container runtime could not start the sandbox: ${said}`,
    "run `sandpool doctor`; if it finds nothing, the message above is the runtime's own",
    { exit },
  );
}

/** The runtime reports a signal as 128 + its number. */
function toExit(code: number | null, signal: NodeJS.Signals | null): SandboxExit {
  if (code === null || code <= 128) return { code, signal };
  const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return name === undefined ? { code, signal: null } : { code: null, signal: name };
}
