import { randomInt } from "node:crypto";
import { existsSync } from "node:fs";
import type { MachineNetwork } from "../drivers/machine.ts";
import { foldersOfServer, type HostFolders, makeHostFolders } from "../host/folders.ts";
import type { MachineNetworkPolicy } from "../machines/contract.ts";
import type { ConnectedNetwork } from "./contract.ts";
import { networkFailed } from "./fail.ts";
import { ensureService } from "./host/base.ts";
import { firewallWarnings } from "./host/firewall.ts";
import { closeForwarding, guardedBy, openForwarding } from "./host/forwarding.ts";
import { listInterfaces, makePair, removeInterface, repairHostSide, setInnerSide } from "./host/interfaces.ts";
import {
  firstMachineIndex,
  type HostNames,
  hostNames,
  lastMachineIndex,
  machineInterface,
  outerAddress,
} from "./host/plan.ts";
import { readNameServers } from "./host/resolvers.ts";
import { askNft } from "./host/run.ts";
import { dropTable, RuleTable } from "./host/table.ts";
import type { Exception } from "./policy/exceptions.ts";
import { parseEgressHost } from "./policy/hosts.ts";
import { endService, ServiceLink } from "./service-link.ts";
import { servicePlace } from "./service-process.ts";

const LOOK_MS = 10_000;
const LOOK_AGAIN_MS = 5_000;
const attempts = 64;

interface HostNetworkOptions {
  warn(message: string): void;
  nameServers?: readonly { address: string; port: number }[];
}

interface Standing {
  service: ServiceLink;
  timer: NodeJS.Timeout;
}

/** What one server has on the host for its machines' networks. One change at a time. */
export class HostNetwork {
  readonly #folders: HostFolders;
  readonly #names: HostNames;
  readonly #exceptions: readonly Exception[];
  readonly #options: HostNetworkOptions;
  readonly #table: RuleTable;
  /** Index of each machine's outer address. */
  readonly #indexes = new Map<string, number>();
  #standing: Promise<Standing> | null = null;
  #queue: Promise<unknown> = Promise.resolve();
  #next = randomInt(firstMachineIndex, lastMachineIndex + 1);
  #nameServers = "";
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(folders: HostFolders, exceptions: readonly Exception[], options: HostNetworkOptions) {
    this.#folders = folders;
    this.#names = hostNames(folders.key);
    this.#exceptions = exceptions;
    this.#options = options;
    this.#table = new RuleTable(this.#names);
  }

  async connect(id: string, policy: MachineNetworkPolicy, network: MachineNetwork): Promise<ConnectedNetwork> {
    const egress = egressOf(policy);
    const { service } = await this.#stand();
    return await this.#oneAtATime(async () => {
      await this.#remove(id);
      await this.#look();
      try {
        const index = await this.#makePair(id, network.pid);
        await service.add(outerAddress(index), egress);
        await this.#table.add({ index, kind: egress === null ? "open" : "egress" });
        await setInnerSide(network.path);
        return { outerAddress: outerAddress(index) };
      } catch (error) {
        await this.#remove(id);
        throw error;
      }
    });
  }

  async adopt(id: string, policy: MachineNetworkPolicy, network: MachineNetwork): Promise<ConnectedNetwork> {
    const egress = egressOf(policy);
    const { service } = await this.#stand();
    const index = this.#indexes.get(id);
    if (index === undefined) return await this.connect(id, policy, network);
    return await this.#oneAtATime(async () => {
      await this.#look();
      await service.add(outerAddress(index), egress);
      await this.#table.add({ index, kind: egress === null ? "open" : "egress" });
      await repairHostSide(this.#names, index);
      return { outerAddress: outerAddress(index) };
    });
  }

  async disconnect(id: string): Promise<void> {
    if (this.#standing === null && !(await this.#isAnythingLeft())) return;
    await this.#stand();
    await this.#oneAtATime(() => this.#remove(id));
  }

  async reconcile(ids: ReadonlySet<string>): Promise<void> {
    await removeDeadServers(this.#names);
    if (this.#standing === null && !(await this.#isAnythingLeft())) return;
    await this.#stand();
    await this.#oneAtATime(async () => {
      for (const id of [...this.#indexes.keys()]) if (!ids.has(id)) await this.#remove(id);
    });
    if (this.#indexes.size === 0) await this.close(false);
  }

  /** What no machine needs goes in any case. */
  async close(keep: boolean): Promise<void> {
    const standing = await this.#standing?.catch(() => null);
    this.#standing = null;
    clearInterval(standing?.timer);
    this.#lookedAt = Number.NEGATIVE_INFINITY;
    if (keep && this.#indexes.size > 0) return await standing?.service.leave();
    if (standing === undefined && !(await this.#isAnythingLeft())) return;
    await this.#oneAtATime(async () => {
      for (const { name } of await this.#ownInterfaces()) await removeInterface(name);
      await (standing?.service.end() ?? endService(servicePlace(this.#folders.own)));
      await takeDown(this.#names);
      this.#indexes.clear();
      this.#table.forget();
    });
  }

  /** Makes what every machine needs, once, and takes over what an earlier server left. */
  #stand(): Promise<Standing> {
    this.#standing ??= this.#oneAtATime(() => this.#makeStanding()).catch((error: unknown) => {
      this.#standing = null;
      throw error;
    });
    return this.#standing;
  }

  async #makeStanding(): Promise<Standing> {
    await makeHostFolders(this.#folders);
    const serviceIndex = await ensureService(this.#names);
    await this.#table.load();
    const interfaces = await this.#ownInterfaces();
    for (const { name, owner } of interfaces) {
      const index = Number.parseInt(name.slice(this.#names.machinePrefix.length), 16);
      if (owner === null) await removeInterface(name);
      else this.#indexes.set(owner.id, index);
    }
    const nameServers = await this.#readNameServers();
    const names = new Set(interfaces.map(({ name }) => name));
    await this.#table.write({ serviceIndex, exceptions: this.#exceptions, upstreams: nameServers }, (name) =>
      names.has(name),
    );
    for (const warning of await firewallWarnings(this.#names.table)) this.#options.warn(warning);
    const service = new ServiceLink(servicePlace(this.#folders.own), this.#names, serviceIndex, this.#options.warn);
    await service.configure(nameServers, this.#exceptions);
    const look = (): void => {
      this.#oneAtATime(() => this.#look(service)).catch((error: Error) => this.#options.warn(error.message));
    };
    return { service, timer: setInterval(look, LOOK_MS).unref() };
  }

  /** Follows the host: its way out, its name servers. */
  async #look(service?: ServiceLink): Promise<void> {
    // Several machines at once look once.
    if (performance.now() - this.#lookedAt < LOOK_AGAIN_MS) return;
    this.#lookedAt = performance.now();
    if (!(await this.#table.isThere())) await this.#restore();
    const destinations = this.#exceptions.map(({ address }) => address);
    const guarded = await openForwarding(destinations, this.#table.guarded, this.#names.table);
    await this.#table.guard(guarded);
    const before = this.#nameServers;
    const found = await this.#readNameServers();
    if (this.#nameServers === before) return;
    await this.#table.setUpstreams(found);
    const link = service ?? (await this.#standing)?.service;
    await link?.configure(found, this.#exceptions);
  }

  /** Somebody flushed all rules of the host, as a firewall's restart does. */
  async #restore(): Promise<void> {
    this.#options.warn(
      `the rules of machines' networks (nft table ${this.#names.table}) were gone, and are made again`,
    );
    const [serviceIndex, upstreams] = [await ensureService(this.#names), await this.#readNameServers()];
    await this.#table.write({ serviceIndex, exceptions: this.#exceptions, upstreams }, () => true);
  }

  async #readNameServers(): Promise<readonly { address: string; port: number }[]> {
    const found = this.#options.nameServers ?? (await readNameServers());
    this.#nameServers = JSON.stringify(found);
    return found;
  }

  /** The kernel says whether an address is free: its route is there or not, whichever server made it. */
  async #makePair(id: string, pid: number): Promise<number> {
    let failure: unknown = null;
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      const index = this.#takeIndex();
      try {
        await makePair(this.#names, id, index, pid);
        this.#indexes.set(id, index);
        return index;
      } catch (error) {
        if (!/File exists/.test((error as Error).message)) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  /** In turns: an address rests as long as it can before another machine gets it, and with it what its peers still send. */
  #takeIndex(): number {
    const used = new Set(this.#indexes.values());
    for (let left = lastMachineIndex - firstMachineIndex + 1; left > 0; left -= 1) {
      const index = this.#next;
      this.#next = index === lastMachineIndex ? firstMachineIndex : index + 1;
      if (!used.has(index)) return index;
    }
    throw networkFailed("all addresses for machines are in use", "delete machines");
  }

  async #remove(id: string): Promise<void> {
    const index = this.#indexes.get(id);
    if (index === undefined) return;
    await removeInterface(machineInterface(this.#names, index));
    await this.#table.remove([index]);
    const { service } = await this.#stand();
    await service.forget(outerAddress(index));
    this.#indexes.delete(id);
  }

  async #ownInterfaces(): Promise<Awaited<ReturnType<typeof listInterfaces>>> {
    return (await listInterfaces()).filter(({ name }) => name.startsWith(this.#names.machinePrefix));
  }

  async #isAnythingLeft(): Promise<boolean> {
    if (process.geteuid?.() !== 0) return false;
    const names = (await listInterfaces().catch(() => [])).map(({ name }) => name);
    return names.some((name) => name === this.#names.service[0] || name.startsWith(this.#names.machinePrefix));
  }

  #oneAtATime<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => undefined);
    return done;
  }
}

/** The hosts of an egress list, null for an open network. @throws TypeError */
function egressOf(policy: MachineNetworkPolicy): readonly string[] | null {
  if (policy.kind === "isolated") throw new TypeError("an isolated machine has no network to connect");
  if (policy.kind === "open") return null;
  for (const host of policy.hosts) parseEgressHost(host);
  return policy.hosts;
}

async function takeDown(names: HostNames): Promise<void> {
  const guarded = await guardedBy(names.table);
  await removeInterface(names.service[0]);
  await dropTable(names.table);
  await closeForwarding(guarded, names.table);
}

/** Servers whose folders are gone will never come back for what they left. */
async function removeDeadServers(own: HostNames): Promise<void> {
  if (process.geteuid?.() !== 0) return;
  const tables = (await askNft("tables").catch(() => [])).map((entry) => String(entry.table?.name));
  for (const table of tables) {
    const key = /^sandpool_([0-9a-f]{12})$/.exec(table)?.[1];
    if (key === undefined || key === own.key || existsSync(foldersOfServer(key).own)) continue;
    const names = hostNames(key);
    for (const { name } of await listInterfaces())
      if (name.startsWith(names.machinePrefix)) await removeInterface(name);
    await takeDown(names);
  }
}
