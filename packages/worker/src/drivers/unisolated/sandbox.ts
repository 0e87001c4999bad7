import type { ChildProcess } from "node:child_process";
import type { Duplex } from "node:stream";
import { DriverError, type Sandbox, type SandboxExit } from "../driver.ts";
import type { Tail } from "../tail.ts";
import { killDescendants } from "./descendants.ts";

export class UnisolatedSandbox implements Sandbox {
  readonly id: string;
  readonly channel: Duplex;
  readonly isolated = false;
  readonly rowMemory = "rlimit";
  readonly memoryDir = null;
  readonly exited: Promise<SandboxExit>;
  readonly #output: Tail;
  readonly #child: ChildProcess;
  readonly #mark: string;
  #killed: Promise<void> | null = null;
  #left: number[] = [];

  constructor(id: string, child: ChildProcess, channel: Duplex, output: Tail, mark: string) {
    this.id = id;
    this.channel = channel;
    this.#child = child;
    this.#output = output;
    this.#mark = mark;
    // What the agent left behind is ended with it, so that `exited` means the same as in a sandbox with a pid namespace.
    this.exited = new Promise<SandboxExit>((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
    }).then(async (exit) => {
      this.#left = await killDescendants(child.pid ?? 0, mark, false);
      return exit;
    });
  }

  stderr(): string {
    return this.#output.text();
  }

  async raiseRowMemory(): Promise<void> {}

  kill(): Promise<void> {
    this.#killed ??= this.#kill();
    return this.#killed;
  }

  async #kill(): Promise<void> {
    this.channel.destroy();
    const runs = this.#child.exitCode === null && this.#child.signalCode === null;
    // Once it was reaped its pid may be anybody's: from then on only `exited` has looked, in the moment it ended.
    if (runs) await killDescendants(this.#child.pid ?? 0, this.#mark, true);
    await this.exited;
    if (this.#left.length === 0) return;
    throw new DriverError(
      "sandbox_cleanup_failed",
      `processes of sandbox ${this.id} could not be ended: ${this.#left.join(", ")}`,
      "they are in uninterruptible sleep or belong to another user; end them by hand",
      { left: this.#left },
    );
  }
}
