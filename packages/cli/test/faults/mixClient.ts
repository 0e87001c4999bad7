import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { SandpoolError } from "sandpool";
import { expect } from "vitest";
import type { FaultServer } from "./faultServer.ts";
import type { Random } from "./random.ts";

/** Only a bound for what hangs. */
const LIMIT_MS = 180_000;
const PAUSE_MS = 200;
/** What may be said where the server or the shim went away meanwhile; whoever hears it asks again. */
const PASSING = ["connection_failed", "server_closing", "agent_failed"];

export type Operation =
  | "new"
  | "exec"
  | "stream"
  | "background"
  | "write"
  | "read"
  | "list"
  | "look"
  | "stop"
  | "start"
  | "delete"
  | "killShim";

const WEIGHTS = {
  none: { new: 1 },
  running: { exec: 8, stream: 3, background: 2, write: 6, read: 5, list: 2, look: 2, stop: 2, delete: 1, killShim: 2 },
  stopped: { start: 4, look: 1, delete: 1, stop: 1 },
} as const satisfies Record<string, Partial<Record<Operation, number>>>;

/** What disturbs every client at once. */
export interface Weather {
  restarts: number;
  isRestarting: boolean;
}

interface Known {
  id: string;
  state: "running" | "stopped";
  /** SHA-256 by path. */
  files: Map<string, string>;
}

/** A client with at most one machine, and what it knows of it: everything the server says has to agree. */
export class MixClient {
  readonly name: string;
  readonly #server: FaultServer;
  readonly #random: Random;
  readonly #weather: Weather;
  readonly #driver: "namespace" | "gvisor";
  #known: Known | null = null;
  /** Its shim was killed, and nothing was asked of it since. */
  #isShaken = false;
  /** What it did, newest last. */
  readonly history: Operation[] = [];

  constructor(index: number, server: FaultServer, random: Random, weather: Weather) {
    this.name = `mix-${index}`;
    this.#driver = index % 4 === 3 ? "gvisor" : "namespace";
    this.#server = server;
    this.#random = random;
    this.#weather = weather;
  }

  get machineId(): string | null {
    return this.#known?.id ?? null;
  }

  /** One operation that the machine's state allows, and the check of its result. */
  async step(): Promise<void> {
    const operation: Operation = this.#random.pick(WEIGHTS[this.#known?.state ?? "none"]);
    this.history.push(operation);
    await this[operation]();
  }

  /** Everything it knows is so. */
  async verify(): Promise<void> {
    await this.look();
    if (this.#known?.state !== "running") return;
    for (const [path, hash] of this.#known.files) expect(await this.#readHash(path), path).toBe(hash);
    await this.list();
  }

  async new(): Promise<void> {
    const request = { name: this.name, driver: this.#driver, isolated: this.#driver === "gvisor" };
    const key = { "idempotency-key": randomUUID() };
    const { status, body } = await this.#retry(async () => {
      const answer = await this.#server.send("POST", "/v1/machines", request, key);
      const { error } = answer.body;
      if (error !== undefined && PASSING.includes(error.code)) throw new SandpoolError("server_closing", error.message);
      return answer;
    });
    expect([status, body.state], JSON.stringify(body)).toEqual([201, "running"]);
    this.#known = { id: String(body.id), state: "running", files: new Map() };
  }

  async exec(): Promise<void> {
    const [first, second] = [
      this.#random.below(20_000),
      this.#random.below(10) === 0 ? 250_000 : this.#random.below(5_000),
    ];
    const code = this.#random.below(4);
    const command = `seq 1 ${first}; seq ${first} ${first + second} >&2; exit ${code}`;
    const outcome = await this.#retry(() => this.#machines.exec(this.#id, { command }));
    const seen = [sha256(outcome.stdoutBytes), sha256(outcome.stderrBytes), outcome.exitCode, outcome.truncated];
    expect(seen, command).toEqual([sha256(numbers(1, first)), sha256(numbers(first, first + second)), code, false]);
  }

  async stream(): Promise<void> {
    const stdin = this.#random.bytes(4 * this.#random.below(64 * 1024));
    const echoed = await this.#retry(async () => {
      const stream = await this.#machines.streamExec(this.#id, { argv: ["/bin/cat"], stdin });
      try {
        const hash = createHash("sha256");
        for await (const { data } of stream) hash.update(data);
        return [hash.digest("hex"), (await stream.wait()).exitCode];
      } finally {
        // Not `await using`: without a server its failure to end the program would stand before the stream's own.
        stream.close();
      }
    });
    expect(echoed, `${stdin.length} bytes through cat`).toEqual([sha256(stdin), 0]);
  }

  async background(): Promise<void> {
    const last = this.#random.below(9_000);
    const { id } = await this.#retry(() => this.#machines.startExec(this.#id, { command: `sleep 0.1; seq 1 ${last}` }));
    const outcome = await this.#retry(() => this.#machines.getExec(this.#id, id, { waitSeconds: 120, output: true }));
    expect([outcome.state, sha256(outcome.stdoutBytes)], `seq 1 ${last}`).toEqual(["exited", sha256(numbers(1, last))]);
  }

  async write(): Promise<void> {
    const path = this.#path();
    const size = this.#random.below(10) === 0 ? 1_000_000 : this.#random.below(60_000);
    const content = this.#random.bytes(size);
    const written = await this.#retry(() => this.#machines.files.write(this.#id, path, content));
    expect(written).toMatchObject({ bytes: size, sha256: sha256(content) });
    this.#known?.files.set(path, sha256(content));
  }

  async read(): Promise<void> {
    const path = this.#path();
    const expected = this.#known?.files.get(path);
    if (expected !== undefined) expect(await this.#readHash(path), path).toBe(expected);
    else await expect(this.#readHash(path)).rejects.toMatchObject({ code: "file_not_found" });
  }

  async list(): Promise<void> {
    const { stdout } = await this.#retry(() => this.#machines.exec(this.#id, { command: "ls /root/mix 2>/dev/null" }));
    const names = [...(this.#known?.files.keys() ?? [])].map((path) => path.slice("/root/mix/".length));
    expect(stdout.split("\n").filter((name) => name !== "")).toEqual(names.sort());
  }

  /** Its machine in the server's list. */
  async look(): Promise<void> {
    const listed = await this.#retry(() => this.#machines.list());
    const found = listed.filter(({ name }) => name === this.name).map(({ id, state }) => ({ id, state }));
    expect(found).toEqual(this.#known === null ? [] : [{ id: this.#known.id, state: this.#known.state }]);
  }

  async stop(): Promise<void> {
    expect((await this.#retry(() => this.#machines.stop(this.#id))).state).toBe("stopped");
    if (this.#known !== null) this.#known.state = "stopped";
  }

  async start(): Promise<void> {
    expect((await this.#retry(() => this.#machines.start(this.#id))).state).toBe("running");
    if (this.#known !== null) this.#known.state = "running";
    this.#isShaken = false;
  }

  async delete(): Promise<void> {
    await this.#retry(() => this.#machines.delete(this.#id));
    this.#known = null;
  }

  async killShim(): Promise<void> {
    try {
      const { pid } = JSON.parse(readFileSync(`${this.#server.machines}/${this.#id}/shim.pid`, "utf8")) as {
        pid: number;
      };
      process.kill(pid, "SIGKILL");
    } catch (error) {
      // The one that takes over from a shim that was just killed has not written its own pid yet.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
    this.#isShaken = true;
  }

  get #machines() {
    return this.#server.client.machines;
  }

  get #id(): string {
    return this.#known?.id ?? "";
  }

  #path(): string {
    return `/root/mix/${"abcde"[this.#random.below(5)]}`;
  }

  async #readHash(path: string): Promise<string> {
    return sha256(await this.#retry(() => this.#machines.files.read(this.#id, path)));
  }

  /** Asks again where something that was disturbed on purpose says so; any other failure is one. */
  async #retry<Result>(call: () => Promise<Result>): Promise<Result> {
    const deadline = performance.now() + LIMIT_MS;
    const { restarts, isRestarting } = this.#weather;
    for (;;) {
      try {
        const result = await call();
        this.#isShaken = false;
        return result;
      } catch (error) {
        const isDisturbed =
          isRestarting || this.#weather.isRestarting || restarts !== this.#weather.restarts || this.#isShaken;
        // `fetch` has an error of its own for a server that is gone.
        const isPassing = error instanceof SandpoolError ? isPassingError(error) : error instanceof TypeError;
        if (!isDisturbed || !isPassing || performance.now() > deadline) throw error;
        await sleep(PAUSE_MS);
      }
    }
  }
}

/** A change that an earlier server had begun is finished by the next one in its own time. */
function isPassingError({ code, details }: SandpoolError): boolean {
  const isUnderWay = code === "machine_state" && ["stopping", "starting"].includes(String(details.state));
  return isUnderWay || PASSING.includes(code);
}

function numbers(first: number, last: number): string {
  let text = "";
  for (let number = first; number <= last; number += 1) text += `${number}\n`;
  return text;
}

function sha256(bytes: Buffer | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}
