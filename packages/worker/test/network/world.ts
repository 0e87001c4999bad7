import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { hostFolders } from "../../src/host/folders.ts";
import type { MachineNetworkPolicy } from "../../src/machines/contract.ts";
import type { ConnectedNetwork } from "../../src/network/contract.ts";
import { hostNames } from "../../src/network/host/plan.ts";
import type { Actions } from "./actor.ts";

const program = fileURLToPath(new URL("./actor.ts", import.meta.url));

type Told = {
  [Name in keyof Actions]: (...args: Parameters<Actions[Name]>) => Promise<Awaited<ReturnType<Actions[Name]>>>;
};

/** A process in a network namespace of its own. */
export interface Actor extends Told {
  pid: number;
  end(): Promise<void>;
}

/** Starts one; `inside`: a namespace that is there, else a new one. */
export async function startActor(inside: string | null = null): Promise<Actor> {
  const launcher = inside === null ? ["unshare", "--net"] : ["nsenter", `--net=${inside}`];
  const [execPath = "", ...before] = launcher;
  const child = fork(program, [], {
    execPath,
    execArgv: [...before, process.execPath, "--disable-warning=ExperimentalWarning"],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const tell = speak(child);
  const actor = new Proxy({} as Actor, {
    get: (_target, name) => {
      if (name === "pid") return child.pid;
      if (name === "end") return () => endChild(child);
      // It is awaited.
      if (name === "then") return undefined;
      return (...args: unknown[]) => tell(String(name), args);
    },
  });
  // Answered once it is in its namespace.
  await actor.run(["ip", "link", "set", "lo", "up"]);
  return actor;
}

export const places = {
  /** The host's own, on the way out. */
  host: "192.0.2.2",
  public: "203.0.113.10",
  otherPublic: "203.0.113.11",
  metadata: "169.254.169.254",
  private: "10.77.0.5",
  exception: "10.88.0.5",
  gateway: "198.18.0.2",
} as const;

/** A host with a way out to something that stands for the internet, and machines on it. */
export class World {
  host: Actor;
  readonly internet: Actor;
  readonly dataDir: string;
  readonly names: ReturnType<typeof hostNames>;
  readonly #machines: Actor[] = [];
  readonly #others: World[] = [];
  #keeper: Actor | null = null;

  private constructor(host: Actor, internet: Actor) {
    this.host = host;
    this.internet = internet;
    this.dataDir = mkdtempSync(`${tmpdir()}/sandpool-network-`);
    this.names = hostNames(hostFolders(this.dataDir).key);
  }

  static async make(allowed: string[] = []): Promise<World> {
    const [host, internet] = await Promise.all([startActor(), startActor()]);
    const world = new World(host, internet);
    await host.run([
      "ip",
      "link",
      "add",
      "name",
      "up0",
      "type",
      "veth",
      "peer",
      "name",
      "up0",
      "netns",
      String(internet.pid),
    ]);
    for (const command of ["address add 192.0.2.2/24 dev up0", "link set up0 up", "route add default via 192.0.2.1"])
      await host.run(["ip", ...command.split(" ")]);
    const addresses = [places.public, places.otherPublic, places.metadata, places.private, places.exception];
    for (const command of [
      "address add 192.0.2.1/24 dev up0",
      "link set up0 up",
      ...addresses.map((address) => `address add ${address}/32 dev lo`),
    ])
      await internet.run(["ip", ...command.split(" ")]);
    await world.createNetworks(allowed);
    return world;
  }

  /** Another server on the same host, with a data folder of its own. */
  static async beside(world: World): Promise<World> {
    const other = new World(await startActor(world.#hostPlace()), world.internet);
    world.#others.push(other);
    await other.createNetworks();
    return other;
  }

  /** SIGKILL, as a server may meet with; the host stands, and a new process is there that knows nothing. */
  async killHost(): Promise<void> {
    this.#keeper ??= await startActor(this.#hostPlace());
    await this.host.end();
    this.host = await startActor(this.#hostPlace());
  }

  /** As after a reboot, or the end of a temporary folder. */
  async forgetFolder(): Promise<void> {
    rmSync(hostFolders(this.dataDir).own, { recursive: true, force: true });
  }

  #hostPlace(): string {
    return `/proc/${(this.#keeper ?? this.host).pid}/ns/net`;
  }

  /** As a server does when it starts. */
  async createNetworks(allowed: string[] = []): Promise<void> {
    await this.host.createNetworks({
      dataDir: this.dataDir,
      allowed,
      nameServers: [{ address: "127.0.0.1", port: 5353 }],
    });
  }

  async startMachine(): Promise<Actor> {
    const machine = await startActor();
    this.#machines.push(machine);
    return machine;
  }

  async connect(id: string, policy: MachineNetworkPolicy, machine: Actor): Promise<string> {
    const network = { pid: machine.pid, path: `/proc/${machine.pid}/ns/net` };
    return ((await this.host.networks("connect", id, policy, network)) as ConnectedNetwork).outerAddress;
  }

  async adopt(id: string, policy: MachineNetworkPolicy, machine: Actor): Promise<string> {
    const network = { pid: machine.pid, path: `/proc/${machine.pid}/ns/net` };
    return ((await this.host.networks("adopt", id, policy, network)) as ConnectedNetwork).outerAddress;
  }

  /** Takes out all that denies, and nothing of what leads packets: an attempt that fails with the rules has to succeed now. */
  async switchOff(): Promise<void> {
    const chains = ["destinations", "refuse", "forwarding_from", "incoming_from", "outgoing"];
    for (const chain of chains) await this.host.run(["nft", "flush", "chain", "inet", this.names.table, chain]);
  }

  /** The rules as a server's next start makes them. */
  async switchOn(machines: [string, MachineNetworkPolicy, Actor][]): Promise<void> {
    await this.host.networks("close", { keep: true });
    await this.createNetworks();
    for (const [id, policy, machine] of machines) await this.adopt(id, policy, machine);
  }

  /** What is on the host of our making: interfaces, tables, processes of the service. */
  async leftovers(): Promise<string[]> {
    const links = await this.host.run(["ip", "-brief", "link"]);
    const tables = await this.host.run(["nft", "list", "tables"]);
    const found = `${links}\n${tables}`.split("\n").filter((line) => /\bsp[ms][0-9a-f]|sandpool/.test(line));
    const sockets = await this.host.run(["ss", "-Hlntu"]);
    return [...found, ...sockets.split("\n").filter((line) => line.includes("198.19."))];
  }

  async end(): Promise<void> {
    for (const other of this.#others) await other.#forget();
    await this.#forget();
    await Promise.all([this.host, this.internet, this.#keeper, ...this.#machines].map((actor) => actor?.end()));
  }

  async #forget(): Promise<void> {
    // A new process of the server that knows nothing finds what is there.
    await this.createNetworks().catch(() => undefined);
    await this.host.networks("close", { keep: false }).catch(() => undefined);
    await this.host.end();
    rmSync(this.dataDir, { recursive: true, force: true });
    rmSync(hostFolders(this.dataDir).own, { recursive: true, force: true });
  }
}

function speak(child: ChildProcess): (action: string, args: unknown[]) => Promise<unknown> {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let last = 0;
  child.on("message", ({ call, result, error }: { call: number; result?: unknown; error?: string }) => {
    const found = waiting.get(call);
    waiting.delete(call);
    if (error === undefined) found?.resolve(result);
    else found?.reject(new Error(error));
  });
  child.on("exit", () => {
    for (const { reject } of waiting.values()) reject(new Error("the actor ended"));
  });
  return (action, args) =>
    new Promise((resolve, reject) => {
      last += 1;
      waiting.set(last, { resolve, reject });
      child.send({ call: last, action, args });
    });
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}
