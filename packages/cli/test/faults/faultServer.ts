import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomInt } from "node:crypto";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { Sandpool } from "sandpool";
import { COMMAND, ended, firstLine, makeHome } from "../../../sdk/test/support/server.ts";
import type { Armed, FromServer, Noted, ToServer } from "./messages.ts";

const STEPS = new URL("steps.ts", import.meta.url).href;

const KEPT_LOG = 20_000;

export interface Answer {
  status: number;
  body: Record<string, unknown> & { error?: { code: string; message: string; hint: string } };
}

/** `sandpool up` that can be killed at a step and comes back at the same address. */
export class FaultServer {
  readonly dataDir: string;
  /** By which the host's folders, groups and interfaces of the data folder are known. */
  readonly hostKey: string;
  /** Where the folders of machines are. */
  readonly machines: string;
  /** The last words of all its processes. */
  log = "";
  readonly #folder: string;
  readonly #variables: NodeJS.ProcessEnv;
  readonly #address: string;
  #process: ChildProcess | null = null;
  #client: Sandpool | null = null;

  private constructor(address: string) {
    const { folder, variables } = makeHome();
    this.#folder = folder;
    this.#address = address;
    this.#variables = { ...variables, NODE_OPTIONS: `--import=${STEPS}` };
    this.dataDir = join(folder, "data", "faults");
    this.hostKey = createHash("sha256").update(resolve(this.dataDir)).digest("hex").slice(0, 12);
    this.machines = `/run/sandpool/${this.hostKey}/machines`;
  }

  static async start(): Promise<FaultServer> {
    const server = new FaultServer(`127.0.0.1:${await freePort()}`);
    await server.start();
    return server;
  }

  get client(): Sandpool {
    if (this.#client === null) throw new Error("the server was not started");
    return this.#client;
  }

  get url(): string {
    return `http://${this.#address}`;
  }

  #key(): string {
    const text = readFileSync(join(this.#folder, "config", "sandpool", "credentials.json"), "utf8");
    return (JSON.parse(text) as { key: string }).key;
  }

  /** Starts it where it does not run. */
  async start(): Promise<void> {
    if (this.isRunning) return;
    const args = ["up", "--listen", this.#address, "--data", this.dataDir, "--json", "--log-level", "error"];
    const child = spawn(COMMAND, args, { env: this.#variables, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    this.#process = child;
    child.stderr?.on("data", (text: string) => {
      this.log = (this.log + text).slice(-KEPT_LOG);
    });
    await firstLine(child);
    this.#client ??= new Sandpool({ url: this.url, apiKey: this.#key() });
  }

  get isRunning(): boolean {
    const child = this.#process;
    return child !== null && child.exitCode === null && child.signalCode === null;
  }

  /** Resolves when it has ended by itself. */
  async ended(): Promise<void> {
    const child = this.#process;
    if (child !== null) await ended(child, () => undefined);
  }

  /** Ends it, and resolves when it is gone. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child !== null) await ended(child, () => child.kill(signal));
  }

  async restart(signal: NodeJS.Signals): Promise<void> {
    await this.end(signal);
    await this.start();
  }

  async arm(arm: Armed): Promise<void> {
    await this.#ask({ arm });
  }

  /** The steps since it was armed; null where the server has ended meanwhile. */
  async disarm(): Promise<Noted | null> {
    return (await this.#ask({ disarm: true })) as Noted | null;
  }

  /** Bytes that the server holds on to. */
  async measure(): Promise<number> {
    const reply = (await this.#ask({ measure: true })) as { bytes: number } | null;
    if (reply === null) throw new Error("the server has ended");
    return reply.bytes;
  }

  /** Removes its machines and all of its own, in whatever state a failed test left it. */
  async remove(): Promise<void> {
    await this.restart("SIGKILL");
    for (const { id } of await this.client.machines.list()) await this.client.machines.delete(id);
    await this.end("SIGTERM");
    rmSync(this.#folder, { recursive: true, force: true });
    rmSync(`/run/sandpool/${this.hostKey}`, { recursive: true, force: true });
  }

  /** A request as it is: no retries, the status with the body. */
  async send(method: string, path: string, value?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const json = value === undefined ? {} : { "content-type": "application/json" };
    const body = value === undefined ? null : JSON.stringify(value);
    const all = { authorization: `Bearer ${this.#key()}`, ...json, ...headers };
    const reply = await fetch(`${this.url}${path}`, { method, body, headers: all });
    return { status: reply.status, body: (await reply.json()) as Answer["body"] };
  }

  async #ask(message: ToServer): Promise<FromServer | null> {
    const child = this.#process;
    if (child === null || !child.connected) return null;
    const scope = new AbortController();
    const gone = once(child, "exit", { signal: scope.signal }).then(() => null);
    const replied = once(child, "message", { signal: scope.signal }).then(([reply]) => reply as FromServer);
    for (const waiting of [gone, replied]) waiting.catch(() => undefined);
    child.send(message, () => undefined);
    try {
      return await Promise.race([gone, replied]);
    } finally {
      scope.abort();
    }
  }
}

/** Below the range from which the kernel gives ports to whoever asks for any: nobody takes it while the server is down. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 30_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((done) => {
      server.once("error", () => done(false)).listen(port, "127.0.0.1", () => done(true));
    });
    server.close();
    if (isFree) return port;
  }
}
