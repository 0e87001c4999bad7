import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createWorker } from "@sandpool/worker";
import { onTestFinished } from "vitest";

const SERVE = new URL("serveMachines.ts", import.meta.url).pathname;

export interface Answer {
  status: number;
  body: Record<string, unknown> & { error?: { code: string; message: string; details: Record<string, unknown> } };
}

/** A data folder whose machines are all gone when the test is done, however its servers ended. */
export async function machinesFolder(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpool-life-"));
  onTestFinished(async () => {
    const worker = await createWorker({ dataDir });
    for (const id of await worker.machines.list()) await worker.machines.remove(id);
    await worker.close();
    await rm(dataDir, { recursive: true, force: true });
    await rm(`/run/sandpool/${keyOf(dataDir)}`, { recursive: true, force: true });
  });
  return dataDir;
}

/** By which the host's folders, groups and interfaces of a data folder are known. */
export function keyOf(dataDir: string): string {
  return createHash("sha256").update(resolve(dataDir)).digest("hex").slice(0, 12);
}

/** A server in a process of its own, which can be killed. */
export class ChildServer {
  readonly process: ChildProcess;
  readonly #url: string;
  readonly #key: string;

  private constructor(child: ChildProcess, { url, key }: { url: string; key: string }) {
    this.process = child;
    this.#url = url;
    this.#key = key;
  }

  /** `key`: that of an earlier server on the folder. */
  static async start(dataDir: string, earlier: ChildServer | null = null): Promise<ChildServer> {
    const child = spawn(process.execPath, [SERVE, dataDir], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => {
      child.kill("SIGKILL");
    });
    let text = "";
    for await (const chunk of child.stdout) {
      text += String(chunk);
      if (text.endsWith("\n")) break;
    }
    const ready = JSON.parse(text) as { url: string; key: string };
    return new ChildServer(child, { url: ready.url, key: earlier === null ? ready.key : earlier.#key });
  }

  async send(method: string, path: string, value?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const body = value === undefined ? null : JSON.stringify(value);
    const json = body === null ? {} : { "content-type": "application/json" };
    const all = { authorization: `Bearer ${this.#key}`, ...json, ...headers };
    const reply = await fetch(`${this.#url}${path}`, { method, body, headers: all });
    const text = await reply.text();
    return { status: reply.status, body: text.startsWith("{") ? JSON.parse(text.split("\n").at(0) ?? "") : {} };
  }

  async list(): Promise<Record<string, unknown>[]> {
    return (await this.send("GET", "/v1/machines")).body.machines as Record<string, unknown>[];
  }

  /** Standard output of a command. */
  async run(machine: string, command: string): Promise<string> {
    const { status, body } = await this.send("POST", `/v1/machines/${machine}/exec`, { command });
    if (status !== 200) throw new Error(`exec answered ${status}: ${JSON.stringify(body)}`);
    return String(body.stdout);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, "exit");
    this.process.kill(signal);
    await gone;
  }
}
