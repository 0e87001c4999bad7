import type { Duplex } from "node:stream";
import { raiseRowGroups, type ShardGroups } from "../../host/cgroups/shard.ts";
import type { Sandbox, SandboxExit } from "../driver.ts";
import { MEMORY_TARGET } from "./bundle.ts";
import { freeHoldings, type Holdings } from "./holdings.ts";
import type { Launched } from "./launch.ts";
import { deleteContainer } from "./runtime.ts";

export class NamespaceSandbox implements Sandbox {
  readonly id: string;
  readonly channel: Duplex;
  readonly isolated = true;
  readonly rowMemory: "cgroup" | "rlimit";
  readonly memoryDir: string | null;
  readonly exited: Promise<SandboxExit>;
  /** Host folder of the row groups. */
  readonly #rowsFolder: string | null;
  readonly #launched: Launched;
  readonly #holdings: Holdings;
  readonly #onFreed: () => Promise<void>;
  #killed: Promise<void> | null = null;

  constructor(holdings: Holdings, launched: Launched, groups: ShardGroups | null, onFreed: () => Promise<void>) {
    this.id = holdings.id;
    this.channel = launched.channel;
    this.rowMemory = groups === null ? "rlimit" : "cgroup";
    this.memoryDir = groups === null || groups.rowsFolder === null ? null : MEMORY_TARGET;
    this.#rowsFolder = groups?.rowsFolder ?? null;
    this.#launched = launched;
    this.#holdings = holdings;
    this.#onFreed = onFreed;
    this.exited = launched.ended.then((exit) => this.#afterRuntime(exit));
  }

  stderr(): string {
    return this.#launched.output.text();
  }

  async raiseRowMemory(limitsBytes: readonly number[]): Promise<void> {
    const { cgroups } = this.#holdings.mode;
    if (cgroups === null || this.#rowsFolder === null) return;
    await raiseRowGroups(cgroups, this.#rowsFolder, limitsBytes);
  }

  kill(): Promise<void> {
    this.#killed ??= freeHoldings(this.#holdings).then(this.#onFreed);
    return this.#killed;
  }

  /** If the runtime itself was killed, its container may live on: nobody would ever wait for that one. */
  async #afterRuntime(exit: SandboxExit): Promise<SandboxExit> {
    const { mode, runtimeRoot } = this.#holdings;
    if (this.#launched.process.signalCode !== null) await deleteContainer(mode.runtime, runtimeRoot, this.id);
    return exit;
  }
}
