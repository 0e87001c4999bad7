import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Writable } from "node:stream";
import { createWorker } from "@sandpool/worker";
import { afterAll, beforeAll, vi } from "vitest";
import { WebSocket } from "ws";
import { createLogger, createServer } from "../src/index.ts";
import type { ServerLimits } from "../src/options.ts";
import { type Reply, TestServer } from "./startTestServer.ts";
import { TestWorker } from "./testWorker.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

export type Driver = "namespace" | "gvisor";

/** Outcome of an exec, read as loosely as a test needs. */
export type Outcome = Record<string, unknown> & {
  id: string;
  exit_code: number;
  stdout: string | { base64: string };
  stderr: string | { base64: string };
};

/** A server with a real worker and machines that run real programs. */
export class MachineServer {
  readonly api: TestServer;
  /** A key of another owner. */
  readonly otherKey: string;
  /** The machine that all tests of a file share. */
  readonly box: string;

  constructor(api: TestServer, otherKey: string, box: string) {
    this.api = api;
    this.otherKey = otherKey;
    this.box = box;
  }

  async newMachine(request: Record<string, unknown> = {}, key = this.api.running.key): Promise<string> {
    const body = JSON.stringify({ driver: "namespace", isolated: true, ...request });
    const made = await this.api.send({ method: "POST", path: "/v1/machines", body, key });
    if (made.status !== 201) throw new Error(`create answered ${made.status}: ${made.bytes}`);
    return String(made.json.id);
  }

  async exec(
    request: Record<string, unknown>,
    { machine = this.box, headers = {} }: { machine?: string; headers?: Record<string, string> } = {},
  ): Promise<Outcome> {
    const reply = await this.tryExec(request, { machine, headers });
    if (reply.status !== 200) throw new Error(`exec answered ${reply.status}: ${reply.bytes}`);
    return reply.json as unknown as Outcome;
  }

  tryExec(
    request: Record<string, unknown>,
    { machine = this.box, headers = {} }: { machine?: string; headers?: Record<string, string> } = {},
  ): Promise<Reply> {
    return this.api.post(`/v1/machines/${machine}/exec`, request, headers);
  }

  /** Standard output of a command that must end well. */
  async run(command: string, machine = this.box): Promise<string> {
    const outcome = await this.exec({ command }, { machine });
    if (outcome.exit_code !== 0) throw new Error(`${command} ended with ${outcome.exit_code}: ${outcome.stderr}`);
    return String(outcome.stdout);
  }

  /** A request whose reply is read as it comes. */
  open(
    path: string,
    options: { method?: string; headers?: Record<string, string>; body?: string; key?: string | null } = {},
  ): Promise<IncomingMessage> {
    const { method = "GET", headers = {}, body, key = this.api.running.key } = options;
    const all = { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...headers };
    if (body !== undefined) Object.assign(all, { "content-type": "application/json" });
    return new Promise((done, reject) => {
      const request = httpRequest({
        host: "127.0.0.1",
        port: this.api.port,
        method,
        path,
        headers: all,
        agent: false,
      });
      request.once("response", done).once("error", reject).end(body);
    });
  }

  socket(path: string, options: { headers?: Record<string, string>; key?: string | null; protocol?: string } = {}) {
    const { headers = {}, key = this.api.running.key, protocol } = options;
    const authorization = key === null ? {} : { authorization: `Bearer ${key}` };
    return new WebSocket(`ws://127.0.0.1:${this.api.port}${path}`, protocol === undefined ? [] : [protocol], {
      perMessageDeflate: false,
      headers: { ...authorization, ...headers },
    });
  }
}

/** One server for a test file, with one machine `box`; both are gone, and nothing of them is left, when its tests are done. */
export function useMachines({
  driver = "namespace" as Driver,
  limits = {} as Partial<ServerLimits>,
} = {}): () => MachineServer {
  let server: MachineServer;
  let remove = async (): Promise<void> => {};
  beforeAll(async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "sandpool-calls-"));
    const worker = await createWorker({ dataDir });
    const logLines: string[] = [];
    const destination = new Writable({
      write(chunk, _encoding, done) {
        logLines.push(String(chunk));
        done();
      },
    });
    const logger = createLogger({ level: "trace", destination });
    const running = await createServer({
      worker,
      dataDir,
      listen: "127.0.0.1:0",
      credentialsFile: null,
      logger,
      limits,
    });
    const api = new TestServer(running, new TestWorker(), dataDir, logLines);
    remove = async () => {
      for (const id of await worker.machines.list()) await api.send({ method: "DELETE", path: `/v1/machines/${id}` });
      // What the API could not delete is not left behind either.
      for (const id of await worker.machines.list()) await worker.machines.remove(id);
      await running.close();
      await rm(dataDir, { recursive: true, force: true });
      const key = createHash("sha256").update(resolve(dataDir)).digest("hex").slice(0, 12);
      await rm(`/run/sandpool/${key}`, { recursive: true, force: true });
    };
    const other = await api.post("/v1/keys", { name: "other", owner: "other" });
    const made = await api.post("/v1/machines", { name: "box", driver, isolated: true });
    if (made.status !== 201) throw new Error(`create answered ${made.status}: ${made.bytes} ${logLines.join("")}`);
    server = new MachineServer(api, String(other.json.key), String(made.json.id));
  });
  afterAll(() => remove());
  return () => server;
}

/** The frames of a streamed exec's body. */
export async function readFrames(body: AsyncIterable<Buffer>): Promise<{ kind: number; bytes: Buffer }[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  const all = Buffer.concat(chunks);
  const frames: { kind: number; bytes: Buffer }[] = [];
  for (let at = 0; at < all.length; ) {
    const length = all.readUInt32LE(at + 1);
    frames.push({ kind: all.readUInt8(at), bytes: all.subarray(at + 5, at + 5 + length) });
    at += 5 + length;
  }
  return frames;
}

export function sha256(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function bytesOf(value: string | { base64: string }): Buffer {
  return typeof value === "string" ? Buffer.from(value) : Buffer.from(value.base64, "base64");
}
