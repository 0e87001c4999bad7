import { createHash } from "node:crypto";
import { type CreatePoolRequest, encodeBatch, makeId, type PoolDescription, SandpoolError } from "@sandpool/protocol";
import type {
  BatchEncoding,
  CreateOptions,
  EncodedBatch,
  Pool,
  StreamConnection,
  StreamOptions,
  StreamSink,
  Worker,
} from "@sandpool/worker";
import { TestMachines, testImages, testNetworks } from "./testMachines.ts";
import { TestStream } from "./testStream.ts";

/**
 * A worker in memory for tests of the server's edge: it keeps the interface, runs no sandbox.
 * `config` steers it: `{"wait": true}` never becomes ready until aborted, `{"fail": true}` fails,
 * `{"delayMs": 50}` reports progress and takes that long.
 */
export class TestWorker implements Worker {
  readonly created: string[] = [];
  readonly rolledBack: string[] = [];
  readonly live = new Map<string, { owner: string; pool: TestPool }>();
  readonly stored = new Map<string, Buffer>();

  readonly machines = new TestMachines();
  readonly images = testImages;
  readonly networks = testNetworks;
  readonly storage = { parts: async () => [], remove: async () => false };

  readonly archives = {
    has: async (owner: string, sha256: string) => this.stored.has(`${owner} ${sha256}`),
    put: async (owner: string, sha256: string, body: NodeJS.ReadableStream) => {
      const chunks: Buffer[] = [];
      for await (const chunk of body) chunks.push(chunk as Buffer);
      const bytes = Buffer.concat(chunks);
      const hash = createHash("sha256").update(bytes).digest("hex");
      if (hash !== sha256) throw new SandpoolError("archive_hash_mismatch", `the bytes hash to ${hash}, not ${sha256}`);
      this.stored.set(`${owner} ${sha256}`, bytes);
      return { sha256, bytes: bytes.length, files: 1 };
    },
  };

  readonly pools = {
    create: (owner: string, request: CreatePoolRequest, rawBody: Buffer, options: CreateOptions) =>
      this.#create(owner, request, rawBody, options),
    get: (owner: string, idOrName: string): Pool => {
      for (const { owner: holder, pool } of this.live.values()) {
        if (holder === owner && (pool.id === idOrName || pool.name === idOrName)) return pool;
      }
      throw new SandpoolError("pool_not_found", `no pool ${JSON.stringify(idOrName)}`);
    },
    list: (owner: string): Pool[] =>
      [...this.live.values()].filter((held) => held.owner === owner).map(({ pool }) => pool),
  };

  async capabilities() {
    return {
      version: "0.1.0",
      node: process.version,
      platform: "linux",
      kernel: "6",
      drivers: [],
      tools: [],
      cgroup: { version: null, controllers: [], writable: false },
      user_namespaces: { available: false, reason: "a test", details: {} },
      limits: { cpus: 1, memory_bytes: 1, pids_max: null, nofile: null },
    };
  }

  async close(): Promise<void> {
    this.live.clear();
  }

  async #create(owner: string, request: CreatePoolRequest, rawBody: Buffer, options: CreateOptions): Promise<Pool> {
    const config = (request.config ?? {}) as { wait?: boolean; fail?: boolean; delayMs?: number };
    const pool = new TestPool(request, rawBody, () => this.live.delete(pool.id));
    this.created.push(pool.id);
    try {
      if (config.fail) throw new SandpoolError("environment_failed", "environment 1 exited", { details: { row: 1 } });
      if (config.wait) await new Promise((_, reject) => onAbort(options.signal, reject));
      if (config.delayMs) await delay(config.delayMs, options);
    } catch (error) {
      this.rolledBack.push(pool.id);
      throw error;
    }
    this.live.set(pool.id, { owner, pool });
    return pool;
  }
}

function onAbort(signal: AbortSignal, reject: (reason: unknown) => void): void {
  if (signal.aborted) reject(signal.reason);
  signal.addEventListener("abort", () => reject(signal.reason), { once: true });
}

async function delay(milliseconds: number, { signal, onProgress }: CreateOptions): Promise<void> {
  onProgress?.({ phase: "start", done: 1, total: 2 });
  await new Promise((resolve, reject) => {
    setTimeout(resolve, milliseconds);
    onAbort(signal, reject);
  });
}

/** Every byte value, repeated: what a reply must carry unchanged. */
export const PATTERN = Buffer.from(Array.from({ length: 65_536 }, (_, index) => (index * 7 + (index >> 8)) & 255));

/** Answers every batch with the request's own figures, so tests can see what arrived. */
export class TestPool implements Pool {
  readonly id = makeId("pool");
  readonly name: string | null;
  readonly n: number;
  readonly rawBody: Buffer;
  readonly stream = new TestStream();
  keptAlive = 0;
  lastRaw: Buffer | null = null;
  readonly request: CreatePoolRequest;
  readonly #onClose: () => void;

  constructor(request: CreatePoolRequest, rawBody: Buffer, onClose: () => void) {
    this.request = request;
    this.rawBody = rawBody;
    this.name = request.name;
    this.n = request.n;
    this.#onClose = onClose;
  }

  describe(): PoolDescription {
    const { seed, autoreset, seeds, entry, isolation } = this.request;
    return {
      id: this.id,
      name: this.name,
      n: this.n,
      state: "ready",
      seed,
      autoreset: autoreset === "auto" ? "same_step" : autoreset,
      seeds,
      entry,
      isolation,
      shards: 1,
      packing: { requested: 1, rows_per_process: 1, processes: this.n, step_us: null, reason: "asked for" },
      vector: null,
      start: {
        way: "fork",
        reason: null,
        timing: { layer_ms: 0, template_ms: 0, start_ms: 0, reset_ms: 0, total_ms: 0 },
      },
      layout: { kind: "array", fields: [{ dtype: "<f4", shape: [4] }], tree: { field: 0 } },
      features: [],
      observation_space: null,
      action_space: null,
      metadata: {},
      render_mode: null,
      spec: null,
      limits: {},
      lease: { seconds: 600, expires_at: new Date(0).toISOString() },
      warnings: [],
      next_seq: 1,
    };
  }

  async status() {
    return { rows: [], counters: { late_replies: 0, replacements: 0, stragglers: 0 }, memory: null };
  }

  async step(input: Parameters<Pool["step"]>[0], encoding: BatchEncoding): Promise<EncodedBatch> {
    if (input.seq === 99)
      throw new SandpoolError("pool_sequence", "batch 99", { details: { expected: 1, received: 99 } });
    if (input.seq === 98) throw new Error("a fault with a secret path /secret");
    this.lastRaw = input.actions.kind === "json" ? input.rawBody : input.actions.data;
    return this.#reply(
      { seq: input.seq, where: input.where, count: input.actions.count, kind: input.actions.kind },
      encoding,
    );
  }

  async reset(request: Parameters<Pool["reset"]>[0], rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    this.lastRaw = rawBody;
    return this.#reply({ ...request, op: "reset" }, encoding);
  }

  async call(request: Parameters<Pool["call"]>[0], rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    this.lastRaw = rawBody;
    return this.#reply({ ...request, op: "call" }, encoding);
  }

  async fork(request: Parameters<Pool["fork"]>[0], rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch> {
    this.lastRaw = rawBody;
    return this.#reply({ ...request, op: "fork" }, encoding);
  }

  async save(request: Parameters<Pool["save"]>[0], rawBody: Buffer): Promise<EncodedBatch> {
    this.lastRaw = rawBody;
    return this.#reply({ ...request, op: "save" }, "json");
  }

  async restore(
    request: Parameters<Pool["restore"]>[0],
    rawBody: Buffer,
    encoding: BatchEncoding,
  ): Promise<EncodedBatch> {
    this.lastRaw = rawBody;
    return this.#reply({ ...request, op: "restore" }, encoding);
  }

  async drop(ids: readonly string[] | null): Promise<string[]> {
    return [...(ids ?? ["st_all"])];
  }

  async states({ memory }: { memory: boolean }) {
    return { states: [], limits: { states: memory ? 1 : 0, bytes: 2 } };
  }

  async observations(encoding: BatchEncoding): Promise<EncodedBatch> {
    const summary = { rows: this.n, stragglers: 1, failures: { timeout: 1, from_a_sandbox: 2 } };
    return { ...this.#reply({ op: "observations" }, encoding), summary };
  }

  async logs(row: number): Promise<Buffer> {
    return Buffer.from(`row ${row}\u001b[31m\xff`, "latin1");
  }

  openStream(options: StreamOptions, sink: StreamSink): StreamConnection {
    return this.stream.open(options, sink);
  }

  keepAlive(): void {
    this.keptAlive += 1;
  }

  async close(): Promise<void> {
    this.#onClose();
  }

  #reply(echo: object, encoding: BatchEncoding): EncodedBatch {
    if (encoding === "binary") {
      const data = [PATTERN.subarray(0, 16 * this.n)];
      const field = { name: "obs", field: 0, dtype: "<f4", shape: [this.n, 4], data };
      return { contentType: "application/vnd.sandpool.batch", ...encodeBatch({ echo }, [field]) };
    }
    const text = Buffer.from(JSON.stringify({ echo }));
    return { contentType: "application/json", chunks: [text.subarray(0, 5), text.subarray(5)], length: text.length };
  }
}
