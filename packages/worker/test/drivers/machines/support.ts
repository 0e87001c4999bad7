import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { AgentChannel } from "../../../src/agent/channel.ts";
import { findAgent } from "../../../src/agent/find.ts";
import type {
  MachineDriver,
  MachineDriverName,
  MachineExit,
  MachineSpec,
  ShimConnection,
} from "../../../src/drivers/machine.ts";
import { createMachineDriver } from "../../../src/drivers/machines/create.ts";
import { hostFolders } from "../../../src/host/folders.ts";
import { readStartTime } from "../../../src/host/identity.ts";
import { readMounts } from "../../../src/host/mountinfo.ts";
import { readSlotOwner } from "../../../src/host/uids/claim.ts";
import type { Outcome } from "../support.ts";

/** Never waited for on a machine that works; only a bound for one that hangs. */
export const LIMIT_MS = 60_000;

/** One server's worth of a driver, on a data folder of its own. */
export interface MachineHost {
  driver: MachineDriver;
  dataDir: string;
  /** A driver of a server that was started after the first one died. */
  restart(): MachineDriver;
  remove(): void;
}

export function makeMachineHost(name: MachineDriverName): MachineHost {
  const dataDir = mkdtempSync(`${tmpdir()}/sandpool-machines-`);
  const make = (): MachineDriver => createMachineDriver(name, { dataDir, agentPath: findAgent() });
  return {
    driver: make(),
    dataDir,
    restart: make,
    remove: () => {
      rmSync(dataDir, { recursive: true, force: true });
      rmSync(hostFolders(dataDir).own, { recursive: true, force: true });
    },
  };
}

export function machineSpec(overrides: Partial<MachineSpec> = {}): MachineSpec {
  return {
    id: `m${Array.from({ length: 20 }, () => randomInt(36).toString(36)).join("")}`,
    hostname: "box",
    image: { kind: "host" },
    vcpu: 1,
    memoryBytes: 512 * 2 ** 20,
    diskBytes: 64 * 2 ** 20,
    processes: 256,
    environ: {},
    network: { kind: "none" },
    ...overrides,
  };
}

export function machineFolder({ dataDir }: MachineHost, id: string): string {
  return `${hostFolders(dataDir).machines}/${id}`;
}

/** A running machine as a server sees it. */
export class Guest {
  readonly id: string;
  readonly connection: ShimConnection;
  readonly channel: AgentChannel;
  readonly events: Record<string, unknown>[] = [];
  readonly exited: Promise<MachineExit>;

  constructor(connection: ShimConnection) {
    this.id = connection.id;
    this.connection = connection;
    this.channel = new AgentChannel(connection.socket);
    this.exited = new Promise((resolve) => {
      this.channel.onEvent = (head) => {
        this.events.push(head);
        if (head.event === "exit") resolve(head as unknown as MachineExit);
      };
    });
  }

  /** What a program wrote to its standard output until it ended. */
  async run(argv: readonly string[], options: Record<string, unknown> = {}): Promise<string> {
    const id = await this.start(argv, options);
    const { body, head } = await this.channel.ask({ op: "exec.wait", id, collect: true });
    const { length } = head.stdout as { length: number };
    return body.subarray(0, length).toString();
  }

  async shell(command: string): Promise<string> {
    return await this.run(["/bin/sh", "-c", command]);
  }

  /** Starts a program and tells its exec id. */
  async start(argv: readonly string[], options: Record<string, unknown> = {}): Promise<string> {
    const id = `x${Array.from({ length: 16 }, () => randomInt(36).toString(36)).join("")}`;
    await this.channel.ask({
      ...{ op: "exec.start", id, argv, cwd: "/", environ: { PATH: "/usr/bin:/bin" }, user: null, tty: null },
      ...{ stdin: false, timeout_ms: LIMIT_MS, grace_ms: 500, keep_bytes: 2 ** 20, ...options },
    });
    return id;
  }

  /** One attempt of `fixtures/attempts.py`, inside. */
  async attempt(...attempt: readonly (string | number)[]): Promise<Outcome> {
    return JSON.parse(await this.run(["/usr/bin/python3", "-c", ATTEMPTS, ...attempt.map(String)])) as Outcome;
  }
}

const ATTEMPTS = readFileSync(fileURLToPath(new URL("../fixtures/attempts.py", import.meta.url)), "utf8");

export async function startGuest(host: MachineHost, overrides: Partial<MachineSpec> = {}): Promise<Guest> {
  const spec = machineSpec(overrides);
  await host.driver.prepare(spec, AbortSignal.timeout(LIMIT_MS));
  return new Guest(await host.driver.launch(spec.id));
}

/** Pid in one of the JSON files of a machine's folder. */
export function pidOf(host: MachineHost, id: string, file: "shim.pid" | "holder.json" | "sandbox.json"): number {
  return (JSON.parse(readFileSync(`${machineFolder(host, id)}/${file}`, "utf8")) as { pid: number }).pid;
}

/** SIGKILL, and until nothing of it runs any more. */
export async function killProcess(pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  while (readStartTime(pid) !== null) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** A root filesystem with a shell and nothing else, at `folder`. */
export function makeRootfs(folder: string): void {
  const libraries = execFileSync("ldd", ["/bin/sh"], { encoding: "utf8" }).match(/\/\S+/g) ?? [];
  for (const path of ["/bin/sh", "/bin/cat", ...libraries.filter((path) => existsSync(path))]) {
    mkdirSync(dirname(folder + path), { recursive: true });
    copyFileSync(path, folder + path);
  }
  mkdirSync(`${folder}/root`, { mode: 0o700 });
  for (const path of [folder, `${folder}/bin`]) chmodSync(path, 0o755);
}

/** What this host still holds on the machine; empty when nothing leaked. */
export async function machineLeftovers({ dataDir }: MachineHost): Promise<string[]> {
  const folders = hostFolders(dataDir);
  const left = list(folders.machines).map((id) => `folder ${id}`);
  left.push(...list(`${dataDir}/machines`).map((id) => `data of ${id}`));
  for (const slot of list(folders.uids)) {
    if ((await readSlotOwner(`${folders.uids}/${slot}`))?.key === folders.key) left.push(`uid slot ${slot}`);
  }
  for (const mount of readMounts()) {
    if (mount.point.includes(folders.key) || mount.root.includes(dataDir)) left.push(`mount ${mount.point}`);
    if (!/^cgroup2?$/.test(mount.type)) continue;
    for (const group of list(mount.point)) if (group.includes(folders.key)) left.push(`cgroup ${mount.point}/${group}`);
  }
  for (const name of list("/sys/block").filter((block) => block.startsWith("loop"))) {
    const file = read(`/sys/block/${name}/loop/backing_file`);
    if (file.includes(dataDir)) left.push(`${name} of ${file.trim()}`);
  }
  for (const pid of list("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const text = `${read(`/proc/${pid}/cgroup`)} ${read(`/proc/${pid}/cmdline`)}`;
    if (text.includes(folders.key) && readStartTime(Number(pid)) !== null) left.push(`process ${pid}: ${text}`);
  }
  return left;
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
