import { randomInt } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { Readable } from "node:stream";
import { findAgent } from "../../src/agent/find.ts";
import type { MachineDriverName } from "../../src/drivers/machine.ts";
import { createMachineDriver } from "../../src/drivers/machines/create.ts";
import { hostFolders } from "../../src/host/folders.ts";
import { readStartTime } from "../../src/host/identity.ts";
import type { ImageStore, ResolvedImage } from "../../src/images/contract.ts";
import type { ExecOutcome, ExecStart, LiveMachine, MachineHost, MachinePlan } from "../../src/machines/contract.ts";
import { createMachineHost } from "../../src/machines/host.ts";
import type { MachineHostOptions } from "../../src/machines/options.ts";
import type { Networks } from "../../src/network/contract.ts";

/** Never waited for on a machine that works; only a bound for one that hangs. */
export const LIMIT_MS = 60_000;

/** The part of one server that has machines, on a data folder of its own. */
export interface Bench {
  name: MachineDriverName;
  dataDir: string;
  host: MachineHost;
  warnings: string[];
  /** Another host on the same folder: the server that comes after this one. */
  next(options?: Partial<MachineHostOptions>): MachineHost;
  /** Ends every machine. */
  clear(): Promise<void>;
  remove(): void;
}

export function makeBench(name: MachineDriverName): Bench {
  const dataDir = mkdtempSync(`${tmpdir()}/sandpool-host-`);
  const warnings: string[] = [];
  const next = (options: Partial<MachineHostOptions> = {}): MachineHost => {
    const driver = createMachineDriver(name, { dataDir, agentPath: findAgent() });
    const warn = (message: string): void => void warnings.push(message);
    const drivers = new Map([[name, driver]]);
    return createMachineHost({ dataDir, drivers, images: onlyHost, networks: unasked, warn, ...options });
  };
  const host = next();
  return {
    ...{ name, dataDir, host, warnings, next },
    clear: async () => {
      for (const id of await host.list()) await host.remove(id);
    },
    remove: () => {
      rmSync(dataDir, { recursive: true, force: true });
      rmSync(hostFolders(dataDir).own, { recursive: true, force: true });
    },
  };
}

const hostImage: ResolvedImage = {
  ...{ id: "host", name: "host", image: { kind: "host" }, environ: {}, user: null, cwd: null },
  drivers: { namespace: { allowed: true, reason: null }, gvisor: { allowed: true, reason: null } },
};
const onlyHost: Pick<ImageStore, "resolve"> = { resolve: async () => hostImage };

/** For isolated machines, which are never asked about: only told that they have gone. */
const unasked: Networks = {
  probe: () => Promise.reject(new Error("asked for a network")),
  inside: () => ({ environ: {}, resolvConf: null }),
  connect: () => Promise.reject(new Error("asked for a network")),
  adopt: () => Promise.reject(new Error("asked for a network")),
  disconnect: async () => undefined,
  reconcile: async () => undefined,
  close: async () => undefined,
};

export function randomId(letter: "m" | "x"): string {
  const length = letter === "m" ? 20 : 16;
  return letter + Array.from({ length }, () => randomInt(36).toString(36)).join("");
}

export function planOf(bench: Bench, overrides: Partial<MachinePlan> = {}): MachinePlan {
  return {
    ...{ id: randomId("m"), name: "box", driver: bench.name, imageId: "host", vcpu: 2, network: { kind: "isolated" } },
    ...{ memoryBytes: 2 ** 30, diskBytes: 2 ** 27, environ: { ANSWER: "42" } },
    ...overrides,
  };
}

export async function createOn(bench: Bench, overrides: Partial<MachinePlan> = {}): Promise<LiveMachine> {
  return await bench.host.create(planOf(bench, overrides), { signal: AbortSignal.timeout(LIMIT_MS) });
}

export function execOf(argv: readonly string[], options: Partial<ExecStart> = {}): ExecStart {
  return {
    ...{ id: randomId("x"), argv, cwd: null, environ: null, user: null, tty: null, stdin: false },
    ...{ timeoutMs: LIMIT_MS, keepBytes: null, attach: false },
    ...options,
  };
}

/** A program's outcome with its output as text. */
export async function run(
  machine: LiveMachine,
  argv: readonly string[],
  options: Partial<ExecStart> = {},
): Promise<ExecOutcome & { text: string; errors: string }> {
  const { id } = await machine.startExec(execOf(argv, options));
  const outcome = await machine.waitExec(id, { collect: true });
  return { ...outcome, text: String(outcome.stdout.content), errors: String(outcome.stderr.content) };
}

export async function shell(machine: LiveMachine, command: string): Promise<string> {
  const { text, errors, exitCode } = await run(machine, ["/bin/sh", "-c", command]);
  if (exitCode !== 0) throw new Error(`${command}: ${exitCode}: ${errors}`);
  return text;
}

export function bytesOf(text: string): Readable {
  return Readable.from([Buffer.from(text)]);
}

export async function textOf(stream: Readable): Promise<string> {
  return Buffer.concat(await stream.toArray()).toString();
}

/** `count` bytes, made as they are read: the same for the same count, and no two pieces alike. */
export function numbered(count: number): Readable {
  return Readable.from(
    (function* () {
      for (let at = 0; at < count; at += 2 ** 16) {
        const piece = Buffer.alloc(Math.min(2 ** 16, count - at), 0x61);
        piece.writeUInt32LE(at / 2 ** 16);
        yield piece;
      }
    })(),
    { objectMode: false, highWaterMark: 2 ** 16 },
  );
}

/** Pid in one of the JSON files of a machine's folder. */
export function pidOf({ dataDir }: Bench, id: string, file: "shim.pid" | "sandbox.json"): number {
  const text = readFileSync(`${hostFolders(dataDir).machines}/${id}/${file}`, "utf8");
  return (JSON.parse(text) as { pid: number }).pid;
}

/** SIGKILL, and until nothing of it runs any more. */
export async function killProcess(pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  while (readStartTime(pid) !== null) await new Promise((resolve) => setTimeout(resolve, 2));
}
