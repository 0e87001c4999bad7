import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import { TOOL_PATH } from "../../host/run.ts";
import { openChannel } from "../channel.ts";
import { checkSpec } from "../check.ts";
import { type Driver, DriverError, type DriverProbe, type Sandbox, type SandboxSpec } from "../driver.ts";
import type { DriverOptions } from "../drivers.ts";
import { Tail } from "../tail.ts";
import { UnisolatedSandbox } from "./sandbox.ts";

export const WARNING =
  "the unisolated driver protects nothing: environments run as this user, with its files, its network and no limits; use it only for code you trust";

/** Starts the agent as an ordinary process. Only ever by name. `mounts` are not made: give paths of the host in argv, cwd and environ. */
export class UnisolatedDriver implements Driver {
  readonly name = "unisolated";
  readonly #options: DriverOptions;

  constructor(options: DriverOptions) {
    this.#options = options;
  }

  async probe(): Promise<DriverProbe> {
    return {
      name: "unisolated",
      available: true,
      mode: "none",
      rowMemory: "rlimit",
      runtime: null,
      reason: null,
      hint: null,
      warnings: [WARNING],
    };
  }

  async start(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
    const { agentPath } = this.#options;
    checkSpec(spec, agentPath);
    signal.throwIfAborted();
    this.#options.warn?.(WARNING);
    const [file = "", ...args] = spec.argv ?? [agentPath ?? ""];
    const mark = randomUUID();
    const ends = await openChannel();
    const child = spawn(file, args, {
      stdio: ["ignore", "pipe", "pipe", ends.childEnd],
      // A session of its own: one of the three things by which its processes are found again.
      detached: true,
      cwd: spec.cwd ?? "/",
      env: { PATH: TOOL_PATH, ...spec.environ, SANDPOOL_SANDBOX: mark },
    });
    const output = new Tail();
    output.follow(child.stdout as Readable);
    output.follow(child.stderr as Readable);
    const channel = ends.take(child);
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (error) => reject(startFailure(file, error)));
    });
    const sandbox = new UnisolatedSandbox(spec.id, child, channel, output, mark);
    if (!signal.aborted) return sandbox;
    await sandbox.kill();
    throw signal.reason;
  }
}

function startFailure(file: string, error: Error): DriverError {
  return new DriverError(
    "sandbox_start_failed",
    `${file} could not be started: ${error.message}`,
    "check that it exists and is executable",
    {},
    {
      cause: error,
    },
  );
}
