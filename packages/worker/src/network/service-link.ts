import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { sleep } from "../host/concurrency.ts";
import { networkFailed } from "./fail.ts";
import type { HostNames } from "./host/plan.ts";
import type { Exception } from "./policy/exceptions.ts";
import type { Upstream } from "./service/clients.ts";
import { type ControlMessage, serviceVersion } from "./service/control.ts";
import { type ServicePlace, serviceFailure, startService } from "./service-process.ts";

const START_MS = 20_000;
const RETRY_MS = 10;
const REPLY_MS = 10_000;
const RESTART_MS = 500;

type Reply = { ok: boolean; message?: string; version?: number };

/** Keeps the service running and tells it of every machine; after a restart of either side it is told all again. */
export class ServiceLink {
  readonly #place: ServicePlace;
  readonly #names: HostNames;
  readonly #index: number;
  readonly #warn: (message: string) => void;
  readonly #clients = new Map<string, string[] | null>();
  #settings: { upstreams: readonly Upstream[]; exceptions: readonly Exception[] } = { upstreams: [], exceptions: [] };
  #connecting: Promise<Talk> | null = null;
  #closed = false;

  constructor(place: ServicePlace, names: HostNames, index: number, warn: (message: string) => void) {
    this.#place = place;
    this.#names = names;
    this.#index = index;
    this.#warn = warn;
  }

  async configure(upstreams: readonly Upstream[], exceptions: readonly Exception[]): Promise<void> {
    this.#settings = { upstreams, exceptions };
    if (this.#connecting !== null) await this.#say({ op: "settings", ...this.#copy() });
  }

  /** Resolves when the machine's questions are answered. */
  async add(address: string, egress: readonly string[] | null): Promise<void> {
    this.#clients.set(address, egress === null ? null : [...egress]);
    await this.#say({ op: "client", address, egress: egress === null ? null : [...egress] });
  }

  async forget(address: string): Promise<void> {
    if (!this.#clients.delete(address)) return;
    if (this.#connecting !== null) await this.#say({ op: "forget", address });
  }

  /** Ends the service, whoever started it. Idempotent. */
  async end(): Promise<void> {
    this.#closed = true;
    const talk = await this.#connecting?.catch(() => null);
    await (talk?.end() ?? endService(this.#place));
  }

  /** Lets go of it; it serves on. */
  async leave(): Promise<void> {
    this.#closed = true;
    (await this.#connecting?.catch(() => null))?.socket.destroy();
  }

  /** @throws once a second service in a row could not be told */
  async #say(message: ControlMessage): Promise<void> {
    try {
      await (await this.#connection()).ask(message);
    } catch {
      // The new one is told everything when it starts.
      await this.#connection();
    }
  }

  #connection(): Promise<Talk> {
    this.#connecting ??= this.#connect().catch((error: unknown) => {
      this.#connecting = null;
      throw error;
    });
    return this.#connecting;
  }

  async #connect(): Promise<Talk> {
    const talk = await openService(this.#place, this.#names, this.#index);
    talk.socket.once("close", () => {
      this.#connecting = null;
      if (!this.#closed) this.#restart();
    });
    await talk.ask({ op: "settings", ...this.#copy() });
    await talk.ask({ op: "clients", addresses: [...this.#clients.keys()] });
    for (const [address, egress] of this.#clients) await talk.ask({ op: "client", address, egress });
    return talk;
  }

  #restart(): void {
    setTimeout(() => {
      if (this.#closed || this.#clients.size === 0) return;
      this.#connection().catch((error: Error) => {
        this.#warn(`machines have no names and no egress at the moment: ${error.message}`);
        this.#restart();
      });
    }, RESTART_MS).unref();
  }

  #copy(): { upstreams: Upstream[]; exceptions: Exception[] } {
    return { upstreams: [...this.#settings.upstreams], exceptions: [...this.#settings.exceptions] };
  }
}

/** Ends what serves there, if anything does. */
export async function endService(place: ServicePlace): Promise<void> {
  await (await tryTalk(place))?.end();
}

async function openService(place: ServicePlace, names: HostNames, index: number): Promise<Talk> {
  const running = await tryTalk(place);
  if (running !== null) {
    if ((await running.ask({ op: "hello" })).version === serviceVersion) return running;
    await running.end();
  }
  return await waitForService(place, await startService(place, names, index));
}

async function waitForService(place: ServicePlace, child: ChildProcess): Promise<Talk> {
  const deadline = performance.now() + START_MS;
  while (performance.now() < deadline) {
    const talk = await tryTalk(place);
    if (talk !== null) return talk;
    if (child.exitCode !== null || child.signalCode !== null) throw serviceFailure(place, child);
    await sleep(RETRY_MS);
  }
  child.kill("SIGKILL");
  throw networkFailed(`the name service did not answer within ${START_MS} ms`);
}

async function tryTalk({ control }: ServicePlace): Promise<Talk | null> {
  const socket = connect({ path: control });
  try {
    await once(socket, "connect");
    return new Talk(socket);
  } catch {
    socket.destroy();
    return null;
  }
}

/** Requests in order, each with its reply. */
class Talk {
  readonly socket: Socket;
  readonly #waiting: ((reply: Reply | null) => void)[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
    socket.unref();
    socket.on("error", () => socket.destroy());
    createInterface({ input: socket }).on("line", (line) => this.#waiting.shift()?.(JSON.parse(line) as Reply));
    socket.once("close", () => {
      for (const resolve of this.#waiting.splice(0)) resolve(null);
    });
  }

  async ask(message: ControlMessage): Promise<Reply> {
    const timer = setTimeout(() => this.socket.destroy(), REPLY_MS);
    const reply = await new Promise<Reply | null>((resolve) => {
      if (this.socket.destroyed) return resolve(null);
      this.#waiting.push(resolve);
      this.socket.write(`${JSON.stringify(message)}\n`);
    }).finally(() => clearTimeout(timer));
    if (reply?.ok === true) return reply;
    throw networkFailed(`the name service did not take ${message.op}: ${reply?.message ?? "it ended"}`);
  }

  /** Until it has ended. */
  async end(): Promise<void> {
    this.socket.ref();
    const closed = this.socket.destroyed ? null : once(this.socket, "close");
    await this.ask({ op: "end" }).catch(() => undefined);
    await closed;
  }
}
