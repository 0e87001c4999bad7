import { readdir, rm } from "node:fs/promises";
import { detectCgroups } from "../../host/cgroups/detect.ts";
import { removeServerGroup } from "../../host/cgroups/remove.ts";
import { serverGroup } from "../../host/cgroups/shard.ts";
import { type HostFolders, hostFolders, makeHostFolders } from "../../host/folders.ts";
import { openChannel } from "../channel.ts";
import { checkSpec } from "../check.ts";
import { type Driver, DriverError, type DriverProbe, type Sandbox, type SandboxSpec } from "../driver.ts";
import type { DriverOptions } from "../drivers.ts";
import { launch, waitUntilStarted } from "../namespace/launch.ts";
import { makeEtc } from "../oci/etc.ts";
import { foregroundArguments, makeGvisorBundle, runtimeFolderOf } from "./bundle.ts";
import { makeGvisorGroups } from "./groups.ts";
import { freeGvisor, type GvisorHoldings, holdGvisor } from "./holdings.ts";
import { detectGvisor, type GvisorTools, probeGvisor } from "./probe.ts";
import { readRunning } from "./running.ts";
import { GvisorSandbox } from "./sandbox.ts";

/** Sandboxes with a kernel of their own in user space: gVisor, in a user namespace with host uids of the sandbox's own. */
export class GvisorDriver implements Driver {
  readonly name = "gvisor";
  readonly #folders: HostFolders;
  readonly #agentPath: string | null;
  readonly #warn: (message: string) => void;
  #ready: Promise<GvisorTools> | null = null;
  #probed: Promise<DriverProbe> | null = null;
  /** Sandboxes that hold something below the server's group; it goes with the last. */
  #holders = 0;

  constructor(options: DriverOptions) {
    this.#folders = hostFolders(options.dataDir);
    this.#agentPath = options.agentPath;
    this.#warn = options.warn ?? ((): void => undefined);
  }

  /** Starts a sandbox once; a good answer is kept, a failure is tried again. */
  async probe(): Promise<DriverProbe> {
    this.#probed ??= probeGvisor(this.#agentPath, (spec) => this.start(spec, AbortSignal.timeout(60_000)));
    const probe = await this.#probed;
    if (!probe.available) this.#probed = null;
    return probe;
  }

  async start(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
    checkSpec(spec, this.#agentPath);
    signal.throwIfAborted();
    const tools = await this.#prepare();
    this.#holders += 1;
    try {
      return await this.#startHeld(spec, tools, signal);
    } catch (error) {
      await this.#freed();
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#holders > 0) return;
    this.#ready = null;
    const { own, machines, sandboxes } = this.#folders;
    const held = await Promise.all([machines, sandboxes].map((path) => readdir(path).catch(() => [])));
    if (held.flat().length === 0) await rm(own, { recursive: true, force: true });
  }

  async #startHeld(spec: SandboxSpec, tools: GvisorTools, signal: AbortSignal): Promise<Sandbox> {
    const holdings = await holdGvisor(this.#folders, spec.id, tools.shim);
    try {
      await this.#makeBundle(spec, tools, holdings);
      signal.throwIfAborted();
      const argv = [tools.shim, ...foregroundArguments(holdings.folder, spec.id)];
      const launched = launch(argv, {}, await openChannel());
      holdings.launched = launched;
      const look = (folder: string): Promise<number> => readRunning(folder, spec.id, launched);
      await waitUntilStarted(launched, runtimeFolderOf(holdings.folder), signal, look);
      return new GvisorSandbox(holdings, launched, () => this.#freed());
    } catch (error) {
      await freeGvisor(holdings).catch((failure: Error) => this.#warn(failure.message));
      throw error;
    }
  }

  async #makeBundle(spec: SandboxSpec, tools: GvisorTools, holdings: GvisorHoldings): Promise<void> {
    const { folder, cgroups, slot } = holdings;
    const groups = cgroups === null ? [] : await makeGvisorGroups(cgroups, this.#folders.key, spec);
    const agentPath = this.#agentPath;
    const input = { spec, agentPath, runscPath: tools.runscPath, folders: this.#folders, folder, groups };
    await makeGvisorBundle({ ...input, firstUid: slot.firstUid });
  }

  /** Looks at the host and makes the shared folders, once. A failure is tried again at the next start. */
  #prepare(): Promise<GvisorTools> {
    this.#ready ??= this.#prepareOnce().catch((error: unknown) => {
      this.#ready = null;
      throw error;
    });
    return this.#ready;
  }

  async #prepareOnce(): Promise<GvisorTools> {
    const tools = await detectGvisor(this.#agentPath);
    if ("reason" in tools) {
      throw new DriverError("driver_unavailable", `the gvisor driver cannot run here: ${tools.reason}`, tools.hint);
    }
    await makeHostFolders(this.#folders);
    await makeEtc(this.#folders.etc);
    return tools;
  }

  async #freed(): Promise<void> {
    this.#holders -= 1;
    const cgroups = detectCgroups();
    if (this.#holders === 0 && cgroups !== null) await removeServerGroup(cgroups, serverGroup(this.#folders.key));
  }
}
