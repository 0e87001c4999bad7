import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import type { Worker } from "@sandpool/worker";
import { onTestFinished, vi } from "vitest";
import { createLogger, createServer, type RunningServer, type ServerOptions } from "../src/index.ts";
import { TestWorker } from "./testWorker.ts";

// Real servers and processes on a machine that may be busy; no test asserts a time.
vi.setConfig({ testTimeout: 60_000 });

export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
  /** The body as JSON, read as loosely as a test needs. */
  json: { [member: string]: unknown } & {
    error?: { code: string; message: string; hint: string; details: Record<string, unknown> };
  };
}

export interface Sent {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
  /** null sends none; default the first key. */
  key?: string | null;
}

export class TestServer {
  readonly running: RunningServer;
  readonly worker: TestWorker;
  readonly dataDir: string;
  readonly logLines: string[];

  constructor(running: RunningServer, worker: TestWorker, dataDir: string, logLines: string[]) {
    this.running = running;
    this.worker = worker;
    this.dataDir = dataDir;
    this.logLines = logLines;
  }

  get port(): number {
    return Number(new URL(this.running.url).port);
  }

  /** One request on a connection of its own. A JSON body is announced as such unless the headers say otherwise. */
  send({ method = "GET", path, headers = {}, body, key = this.running.key }: Sent): Promise<Reply> {
    const all: Record<string, string> = {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    };
    if (key !== null) all.authorization = `Bearer ${key}`;
    if (body !== undefined && all["transfer-encoding"] === undefined)
      all["content-length"] ??= String(Buffer.byteLength(body));
    return new Promise((resolve, reject) => {
      const request = httpRequest(
        { host: "127.0.0.1", port: this.port, method, path, headers: all, agent: false },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("end", () => {
            const bytes = Buffer.concat(chunks);
            resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes, json: looseJson(bytes) });
          });
          response.on("error", reject);
        },
      );
      request.on("error", reject);
      request.end(body);
    });
  }

  post(path: string, value: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send({ method: "POST", path, body: JSON.stringify(value), headers });
  }

  async createPool(overrides: Record<string, unknown> = {}): Promise<string> {
    const reply = await this.post("/v1/pools", { ...POOL, ...overrides });
    if (reply.status !== 201) throw new Error(`create answered ${reply.status}: ${reply.bytes}`);
    return String(reply.json.id);
  }
}

/** The least a create request needs. */
export const POOL = { archive: "a".repeat(64), entry: "env.py", n: 4 };

type TestOptions = Partial<Omit<ServerOptions, "worker">> & {
  /** Instead of the worker in memory. */
  realWorker?: Worker;
  /** Uses the default place of the credentials file instead of none. */
  ownCredentialsFile?: boolean;
};

/** A server on a free port with a worker in memory; it ends with the test that started it. */
export async function startTestServer(options: TestOptions = {}): Promise<TestServer> {
  const dataDir = options.dataDir ?? (await temporaryFolder());
  const { realWorker, ...settings } = options;
  const worker = new TestWorker();
  const logLines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      logLines.push(String(chunk));
      done();
    },
  });
  const logger = createLogger({ level: "trace", destination });
  const file = options.ownCredentialsFile ? {} : { credentialsFile: null };
  const running = await createServer({
    listen: "127.0.0.1:0",
    logger,
    ...file,
    ...settings,
    dataDir,
    worker: realWorker ?? worker,
  });
  onTestFinished(() => running.close());
  return new TestServer(running, worker, dataDir, logLines);
}

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sandpool-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

function looseJson(bytes: Buffer): Reply["json"] {
  try {
    return JSON.parse(bytes.toString()) as Reply["json"];
  } catch {
    return {};
  }
}
