import type { Duplex } from "node:stream";
import type { Sandbox, SandboxExit } from "../driver.ts";
import { MEMORY_TARGET } from "../namespace/bundle.ts";
import type { Launched } from "../namespace/launch.ts";
import { endSandbox } from "./end.ts";
import { freeGvisor, type GvisorHoldings } from "./holdings.ts";

/** A running sandbox of gVisor. The host has no group for a row; those of the sandbox's own kernel are the agent's to make and watch. */
export class GvisorSandbox implements Sandbox {
  readonly id: string;
  readonly channel: Duplex;
  readonly isolated = true;
  readonly rowMemory = "watch";
  readonly memoryDir = MEMORY_TARGET;
  readonly exited: Promise<SandboxExit>;
  readonly #launched: Launched;
  readonly #holdings: GvisorHoldings;
  readonly #onFreed: () => Promise<void>;
  #killed: Promise<void> | null = null;

  constructor(holdings: GvisorHoldings, launched: Launched, onFreed: () => Promise<void>) {
    this.id = holdings.id;
    this.channel = launched.channel;
    this.#launched = launched;
    this.#holdings = holdings;
    this.#onFreed = onFreed;
    this.exited = launched.ended.then((exit) => this.#afterRuntime(exit));
  }

  stderr(): string {
    return this.#launched.output.text();
  }

  async raiseRowMemory(): Promise<void> {
    // The agent knows the limits.
  }

  kill(): Promise<void> {
    this.#killed ??= freeGvisor(this.#holdings).then(this.#onFreed);
    return this.#killed;
  }

  /**
   * If the runtime itself was killed, what it started may live on. A program that ends in its first moments takes away what the runtime
   * still wants to say about the start, which then ends by SIGPIPE: how the program ended is not known.
   */
  async #afterRuntime(exit: SandboxExit): Promise<SandboxExit> {
    const { shim, folder } = this.#holdings;
    const { signalCode } = this.#launched.process;
    if (signalCode !== null) await endSandbox(shim, folder);
    return signalCode === "SIGPIPE" ? { code: null, signal: null } : exit;
  }
}
