import { readdir, rm } from "node:fs/promises";
import { removeServerGroup } from "../../host/cgroups/remove.ts";
import { serverGroup } from "../../host/cgroups/shard.ts";
import { type HostFolders, hostFolders, makeHostFolders } from "../../host/folders.ts";
import { openChannel } from "../channel.ts";
import { checkSpec } from "../check.ts";
import { type Driver, DriverError, type DriverProbe, type Sandbox, type SandboxSpec } from "../driver.ts";
import type { DriverOptions } from "../drivers.ts";
import { makeEtc } from "../oci/etc.ts";
import { makeBundle } from "./bundle.ts";
import { freeHoldings, hold } from "./holdings.ts";
import { launch, waitUntilStarted } from "./launch.ts";
import { detectMode, type NamespaceMode } from "./mode.ts";
import { probeNamespace } from "./probe.ts";
import { runArguments, runtimeEnvironment } from "./runtime.ts";
import { NamespaceSandbox } from "./sandbox.ts";

/** Containers by an OCI runtime in a user namespace with host uids of their own. As root, or rootless for an ordinary user. */
export class NamespaceDriver implements Driver {
  readonly name = "namespace";
  readonly #folders: HostFolders;
  readonly #agentPath: string | null;
  readonly #warn: (message: string) => void;
  #ready: Promise<NamespaceMode> | null = null;
  /** Sandboxes that hold something below the server's group; it goes with the last. */
  #holders = 0;

  constructor(options: DriverOptions) {
    this.#folders = hostFolders(options.dataDir);
    this.#agentPath = options.agentPath;
    this.#warn = options.warn ?? ((): void => undefined);
  }

  async probe(): Promise<DriverProbe> {
    return probeNamespace(await detectMode(this.#folders.key));
  }

  async start(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
    checkSpec(spec, this.#agentPath);
    signal.throwIfAborted();
    const mode = await this.#prepare();
    this.#holders += 1;
    try {
      return await this.#startHeld(spec, mode, signal);
    } catch (error) {
      await this.#freed(mode);
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#holders > 0) return;
    this.#ready = null;
    const { own, machines, sandboxes, runtimeRoot } = this.#folders;
    const holdsMachines = (await readdir(machines).catch(() => [])).length > 0;
    // Machines go on without a server, from the same folder.
    const paths = holdsMachines ? [sandboxes, runtimeRoot] : [own];
    for (const path of paths) await rm(path, { recursive: true, force: true });
  }

  async #startHeld(spec: SandboxSpec, mode: NamespaceMode, signal: AbortSignal): Promise<Sandbox> {
    const holdings = await hold(this.#folders, spec.id, mode);
    const { folder, ids } = holdings;
    try {
      const groups = await makeBundle({ spec, agentPath: this.#agentPath, mode, folders: this.#folders, folder, ids });
      holdings.pending = groups?.rowsMade ?? Promise.resolve();
      signal.throwIfAborted();
      const argv = runArguments(mode.runtime, holdings.runtimeRoot, folder, spec.id);
      const launched = launch(argv, runtimeEnvironment(), await openChannel());
      holdings.launched = launched;
      await waitUntilStarted(launched, folder, signal);
      await holdings.pending;
      return new NamespaceSandbox(holdings, launched, groups, () => this.#freed(mode));
    } catch (error) {
      await freeHoldings(holdings).catch((failure: Error) => this.#warn(failure.message));
      throw error;
    }
  }

  /** Looks at the host and makes the shared folders, once. A failure is tried again at the next start. */
  #prepare(): Promise<NamespaceMode> {
    this.#ready ??= this.#prepareOnce().catch((error: unknown) => {
      this.#ready = null;
      throw error;
    });
    return this.#ready;
  }

  async #prepareOnce(): Promise<NamespaceMode> {
    const mode = await detectMode(this.#folders.key);
    if ("reason" in mode) {
      throw new DriverError("driver_unavailable", `the namespace driver cannot run here: ${mode.reason}`, mode.hint);
    }
    for (const warning of mode.warnings) this.#warn(warning);
    await makeHostFolders(this.#folders);
    await makeEtc(this.#folders.etc);
    return mode;
  }

  async #freed(mode: NamespaceMode): Promise<void> {
    this.#holders -= 1;
    if (this.#holders === 0 && mode.cgroups !== null)
      await removeServerGroup(mode.cgroups, serverGroup(this.#folders.key));
  }
}
