import type {
  ExecStarted,
  ListedExec,
  Machine,
  MachineList,
  MachineState,
  PortEntry,
  PortLink,
} from "@sandpool/protocol";
import type { Transport } from "../http/transport.ts";
import { requestJson } from "../values/json.ts";
import { createMachine, createMachines, type MachineFate } from "./create.ts";
import {
  endExec,
  exec,
  getExec,
  listExecs,
  type RunOptions,
  type StreamOptions,
  signalExec,
  startExec,
  streamExec,
} from "./exec/execs.ts";
import type { ExecOptions } from "./exec/options.ts";
import type { ExecOutcome } from "./exec/outcome.ts";
import { ExecStream } from "./exec/stream.ts";
import { MachineFiles } from "./files/files.ts";
import { type MachineOptions, machinePath } from "./options.ts";
import { listPorts, makeLink, setPort } from "./ports.ts";
import { type ReadyOptions, waitUntilReady } from "./ready.ts";
import { addressOf, type PortAddress } from "./url.ts";

// Saving a large disk takes its time.
const LIFE_TIMEOUT_MS = 1_800_000;

/**
 * Machines of a server: long-lived isolated Linux boxes. Everywhere a machine is an id or a name.
 *
 * @example
 * const { machines } = new Sandpool();
 * await machines.create({ name: "box", size: "medium" });
 * console.log((await machines.exec("box", { command: "uname -a" })).check().stdout);
 */
export class Machines {
  /** Files inside machines. */
  readonly files: MachineFiles;
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.files = new MachineFiles(transport);
  }

  /** Makes a machine; resolves once it runs. A failure leaves nothing behind. */
  create(options: MachineOptions = {}): Promise<Machine> {
    return createMachine(this.#transport, options);
  }

  /** Makes several, named NAME-1, NAME-2 and so on; the fate of each, in order. */
  createMany(count: number, options: MachineOptions = {}): Promise<MachineFate[]> {
    return createMachines(this.#transport, count, options);
  }

  /** @throws NotFoundError (`machine_not_found`) */
  async get(machine: string): Promise<Machine> {
    return (await this.#transport.json("GET", machinePath(machine), { retries: 3 })) as Machine;
  }

  /** Your machines, with all of the labels and in the state given. */
  async list(filter: { labels?: Readonly<Record<string, string>>; state?: MachineState } = {}): Promise<Machine[]> {
    return (await this.listWithQuota(filter)).machines;
  }

  /** `list`, and how many machines you have of how many you may have. */
  async listWithQuota({
    labels = {},
    state,
  }: {
    labels?: Readonly<Record<string, string>>;
    state?: MachineState;
  } = {}): Promise<MachineList> {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(labels)) query.append("label", `${key}=${value}`);
    if (state !== undefined) query.append("state", state);
    const route = query.size === 0 ? "/v1/machines" : `/v1/machines?${query}`;
    return (await this.#transport.json("GET", route, { retries: 3 })) as MachineList;
  }

  /** Deletes it from any state, with its disk; nothing of it is left when this resolves. */
  async delete(machine: string): Promise<void> {
    await this.#transport.json("DELETE", machinePath(machine), { retries: 3, timeoutMs: LIFE_TIMEOUT_MS });
  }

  /** Ends its programs and saves its disk. */
  stop(machine: string): Promise<Machine> {
    return this.#change(machine, "/stop");
  }

  /** Starts a stopped one with its saved disk. */
  start(machine: string): Promise<Machine> {
    return this.#change(machine, "/start");
  }

  /** Puts its deletion off by its lease. */
  renewLease(machine: string): Promise<Machine> {
    return this.#change(machine, "/lease");
  }

  /** Changes its name, its labels (all of them) or its lifetime, counted from its creation; null: none. */
  async update(
    machine: string,
    change: { name?: string; labels?: Readonly<Record<string, string>>; lifetimeSeconds?: number | null },
  ): Promise<Machine> {
    const { lifetimeSeconds, ...rest } = change;
    const body = requestJson({ ...rest, ...(lifetimeSeconds !== undefined && { lifetime: lifetimeSeconds }) });
    return (await this.#transport.json("PATCH", machinePath(machine), { body, retries: 3 })) as Machine;
  }

  /** Resolves once it runs, and with `port` once something listens there. @throws MachineStateError where it will not */
  waitUntilReady(machine: string, options: ReadyOptions = {}): Promise<Machine> {
    return waitUntilReady(this.#transport, machine, options);
  }

  /** The last words of its agent and runtime, as they came: escape them before a terminal. */
  async logs(machine: string): Promise<Buffer> {
    const route = machinePath(machine, "/logs");
    return this.#transport.send("GET", route, { retries: 3 }, async (reply) =>
      Buffer.from(await reply.body.arrayBuffer()),
    );
  }

  /**
   * Runs a program to its end. Its output is exact; of more than 8 MiB a stream head and tail are kept and the rest is counted.
   * After a broken connection it joins the same exec again; aborting `signal` ends it inside.
   * @throws ExecFailedError where it cannot be started
   */
  exec(machine: string, options: RunOptions): Promise<ExecOutcome> {
    return exec(this.#transport, machine, options);
  }

  /** Starts a program whose output is read while it runs: `for await (const { kind, data } of stream)`. */
  streamExec(machine: string, options: StreamOptions): Promise<ExecStream> {
    return streamExec(this.#transport, machine, options);
  }

  /** Starts a program that runs on by itself; its output is kept. */
  startExec(machine: string, options: ExecOptions): Promise<ExecStarted> {
    return startExec(this.#transport, machine, options);
  }

  /** Joins an exec: with the output so far, or `from: "now"`. */
  attachExec(
    machine: string,
    id: string,
    { from = "start", signal }: { from?: "start" | "now"; signal?: AbortSignal } = {},
  ): Promise<ExecStream> {
    const target = { transport: this.#transport, path: machinePath(machine) };
    return ExecStream.open(target, { start: null, execId: id, from, signal });
  }

  /** Running, detached and, for ten minutes, ended ones. */
  listExecs(machine: string): Promise<ListedExec[]> {
    return listExecs(this.#transport, machine);
  }

  /** How an exec ended, waiting up to `waitSeconds` for it; `state` is `running` where it has not. */
  getExec(machine: string, id: string, options: { waitSeconds?: number; output?: boolean } = {}): Promise<ExecOutcome> {
    return getExec(this.#transport, machine, id, options);
  }

  /** Sends a signal, by its name without `SIG`; resolves with how many processes got it. */
  signalExec(machine: string, id: string, signal = "TERM", { tree = true }: { tree?: boolean } = {}): Promise<number> {
    return signalExec(this.#transport, machine, id, signal, tree);
  }

  /** Ends an exec with all that is below it. */
  endExec(machine: string, id: string): Promise<void> {
    return endExec(this.#transport, machine, id);
  }

  /** Listening TCP ports inside. */
  ports(machine: string): Promise<PortEntry[]> {
    return listPorts(this.#transport, machine);
  }

  /** The addresses of a port, whether or not something listens there yet. */
  url(machine: string, port: number): Promise<PortAddress> {
    return addressOf(this.#transport, machine, port);
  }

  /** Lets anybody reach a port, or no longer. */
  setPort(machine: string, port: number, options: { public: boolean }): Promise<PortEntry> {
    return setPort(this.#transport, machine, port, options.public);
  }

  /** A signed address that needs no key, for an hour or `expiresSeconds`, at most a day. */
  link(machine: string, port: number, options: { expiresSeconds?: number } = {}): Promise<PortLink> {
    return makeLink(this.#transport, machine, port, options.expiresSeconds);
  }

  /** Makes every link of the machine worthless. */
  async revokeLinks(machine: string, port: number): Promise<void> {
    await this.#transport.json("DELETE", machinePath(machine, `/ports/${port}/link`), { retries: 3 });
  }

  async #change(machine: string, verb: string): Promise<Machine> {
    const request = { body: "{}", timeoutMs: LIFE_TIMEOUT_MS };
    return (await this.#transport.json("POST", machinePath(machine, verb), request)) as Machine;
  }
}
