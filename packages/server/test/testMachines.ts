import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type {
  ImageStore,
  LiveMachine,
  MachineCreateOptions,
  MachineExit,
  MachineHost,
  MachinePlan,
  Networks,
  ResolvedImage,
} from "@sandpool/worker";

/**
 * Machines in memory for tests of the server's edge; nothing runs. Real ones: test/machines/. A label of the plan's environment
 * steers it: `TEST=wait` is never ready until aborted, `TEST=fail` fails.
 */
export class TestMachines implements MachineHost {
  readonly held = new Map<string, TestMachine>();
  readonly created: string[] = [];

  async probe() {
    const can = { reason: null, hint: null, runtime: null, fork: false, checkpoint: false, hibernate: false };
    return [{ name: "namespace" as const, available: true, warnings: [], ...can }];
  }

  async create(plan: MachinePlan, { signal, onProgress }: MachineCreateOptions): Promise<LiveMachine> {
    this.created.push(plan.id);
    onProgress?.({ phase: "start", done: 0, total: 1 });
    if (plan.environ.TEST === "fail") throw new SandpoolError("driver_unavailable", "a test failed it");
    if (plan.environ.TEST === "wait") {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
    }
    const machine = new TestMachine(plan.id);
    this.held.set(plan.id, machine);
    return machine;
  }

  async adopt(plan: MachinePlan) {
    return this.held.get(plan.id) ?? null;
  }

  async list() {
    return [...this.held.keys()];
  }

  async remove(id: string) {
    this.held.get(id)?.finish("KILL");
    this.held.delete(id);
  }

  async readLogs(id: string) {
    return Buffer.from(`words of ${id}\u001b[31m\xff`, "latin1");
  }

  async close() {}
}

/** Keeps the interface; what it answers is made of what it was asked. */
export class TestMachine implements LiveMachine {
  readonly id: string;
  readonly outerAddress = null;
  readonly agent = { users: [], shell: "/bin/sh" };
  readonly startedAt = 0;
  readonly ended: Promise<MachineExit>;
  readonly #events = new EventEmitter();

  constructor(id: string) {
    this.id = id;
    this.ended = new Promise((resolve) => this.#events.once("end", resolve));
  }

  finish(signal: string | null, isOutOfMemory = false): MachineExit {
    const code = signal === null ? 0 : null;
    const exit = { code, signal, oom_killed: isOutOfMemory, started: true, at: Date.now() };
    this.#events.emit("end", exit);
    return exit;
  }

  async startExec({ id }: { id: string }) {
    return { id, pid: 2, startedAt: 0, repeated: false, stdout: null, stderr: null };
  }

  async attachExec(id: string): Promise<never> {
    throw notFound("exec_not_found", id);
  }

  async waitExec(id: string): Promise<never> {
    throw notFound("exec_not_found", id);
  }

  async writeExecInput() {
    return { bytes: 0 };
  }

  async signalExec(id: string): Promise<never> {
    throw notFound("exec_not_found", id);
  }

  async resizeExec() {}

  async listExecs() {
    return [];
  }

  async forgetExec() {}

  async writeFile() {
    return { bytes: 0, sha256: "" };
  }

  async readFile(path: string): Promise<never> {
    throw notFound("file_not_found", path);
  }

  async statFile(path: string): Promise<never> {
    throw notFound("file_not_found", path);
  }

  async listFiles() {
    return { entries: [], more: false };
  }

  async makeFolder() {}

  async moveFile() {}

  async removeFile() {}

  async watchFiles() {
    return Readable.from([]);
  }

  async writeTree() {
    return { entries: 0, bytes: 0 };
  }

  async readTree() {
    return Readable.from([]);
  }

  async dialPort(port: number): Promise<never> {
    throw notFound("port_refused", String(port));
  }

  async listPorts() {
    return [];
  }

  async saveDisk() {
    return { bytes: 1, sha256: "", savedAt: Date.now() };
  }

  async memoryBytes() {
    return 4096;
  }

  async stop() {
    return this.finish(null);
  }
}

function notFound(code: "exec_not_found" | "file_not_found" | "port_refused", what: string): SandpoolError {
  return new SandpoolError(code, `there is no ${what}`);
}

const HOST_IMAGE: ResolvedImage = {
  id: "host",
  name: "host",
  image: { kind: "host" },
  environ: { PATH: "/usr/bin:/bin" },
  user: null,
  cwd: null,
  drivers: { namespace: { allowed: true, reason: null }, gvisor: { allowed: true, reason: null } },
};

/** The image `host` and no other. */
export const testImages: ImageStore = {
  list: async () => [
    { id: "host", name: "host", kind: "host", source: null, bytes: null, created_at: null, description: "the host's" },
  ],
  resolve: async (name) => {
    if (name === "host") return HOST_IMAGE;
    throw new SandpoolError("image_not_found", `there is no image ${name}`);
  },
  build: async (name) => {
    throw new SandpoolError("image_not_found", `there is no recipe ${name}`);
  },
  pull: async (name) => {
    throw new SandpoolError("image_failed", `there is no ${name}`);
  },
  import: async (name) => {
    throw new SandpoolError("image_failed", `${name} is no image`);
  },
  remove: async (name) => {
    throw new SandpoolError("image_not_found", `there is no image ${name}`);
  },
};

export const testNetworks: Networks = {
  probe: async () => null,
  inside: () => ({ environ: {}, resolvConf: null }),
  connect: async () => ({ outerAddress: "127.0.0.1" }),
  adopt: async () => ({ outerAddress: "127.0.0.1" }),
  disconnect: async () => {},
  reconcile: async () => {},
  close: async () => {},
};
