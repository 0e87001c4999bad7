import type { PoolReply } from "@sandpool/protocol";
import { ArgumentError, PoolEndedError, SandpoolError } from "../errors.ts";
import { escapeControl } from "../escape.ts";
import type { Transport } from "../http/transport.ts";
import { decodeValue } from "../values/decode.ts";
import { describe } from "../values/describe.ts";
import { isValueObject, type ValueObject } from "../values/types.ts";
import { readDescription } from "./description.ts";
import { LeaseKeeper } from "./lease.ts";

/** What an object here holds of a pool on the server: its description, its lease, and the way to its end. */
export class PoolHandle implements AsyncDisposable {
  readonly id: string;
  /** Rows of the pool. */
  readonly n: number;
  /** As the server described the pool when it was made or attached: spaces, layout, packing, vector, start, limits. */
  readonly description: PoolReply;
  protected readonly path: string;
  protected readonly server: Transport;
  private readonly lease: LeaseKeeper;
  private readonly attached: boolean;
  private state: "open" | "closed" | "detached" = "open";

  protected constructor(server: Transport, description: PoolReply, attached: boolean) {
    this.server = server;
    this.description = description;
    this.id = description.id;
    this.n = description.n;
    this.attached = attached;
    this.path = `/v1/pools/${encodeURIComponent(description.id)}`;
    this.lease = new LeaseKeeper(server, this.path, description.lease.seconds, this);
  }

  /** The pool's name, or null. */
  get name(): string | null {
    return this.description.name;
  }

  /** Whether this object was closed or detached. */
  get closed(): boolean {
    return this.state !== "open";
  }

  /** The announced observation space of one environment as `{type, …}`, or null. */
  get observationSpace(): ValueObject | null {
    return asSpace(this.description.observation_space);
  }

  /** The announced action space of one environment as `{type, …}`, or null. */
  get actionSpace(): ValueObject | null {
    return asSpace(this.description.action_space);
  }

  /**
   * Description, rows and counters; with `memory` (the default) also the PSS of every environment in bytes, sampled off the
   * step path, and by which method.
   */
  async status(options: { memory?: boolean } = {}): Promise<PoolReply> {
    this.assertOpen();
    const path = `${this.path}?memory=${options.memory !== false}`;
    return readDescription(await this.server.json("GET", path, { retries: 3 }));
  }

  /** The last 64 KiB of a row's standard error: text made safe for a terminal, or with `raw` the bytes as they came. */
  async logs(row: number): Promise<string>;
  async logs(row: number, options: { raw: true }): Promise<Buffer>;
  async logs(row: number, options: { raw?: boolean } = {}): Promise<string | Buffer> {
    this.assertOpen();
    if (!Number.isSafeInteger(row) || row < 0 || row >= this.n) {
      throw new ArgumentError(`row is ${describe(row)}; expected a whole number from 0 to ${this.n - 1}.`);
    }
    const bytes = await this.server.send(
      "GET",
      `${this.path}/logs?row=${row}`,
      { accept: "text/plain", retries: 3 },
      async (reply) => Buffer.from(await reply.body.arrayBuffer()),
    );
    return options.raw ? bytes : escapeControl(bytes.toString("utf8"), { keepLines: true });
  }

  /** Closes the pool on the server; after it nothing of the pool is left. Closing twice is harmless. */
  async close(): Promise<void> {
    if (this.state === "closed") return;
    this.state = "closed";
    await this.letGo();
    await this.server.json("DELETE", this.path, { retries: 3 }).catch((error: unknown) => {
      const gone = error instanceof SandpoolError && (error.status === 404 || error.status === 410);
      if (!gone) throw error;
    });
  }

  /** Lets go of the pool without closing it: it lives on for its lease, or for another client. */
  async detach(): Promise<void> {
    if (this.state !== "open") return;
    this.state = "detached";
    await this.letGo();
  }

  /** Closes a pool that this object made, detaches from one that it joined. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.attached) await this.detach();
    else await this.close();
  }

  /** Ends what this object keeps of the pool; nothing is sent to it. */
  protected async letGo(): Promise<void> {
    this.lease.stop();
  }

  protected assertOpen(): void {
    if (this.state !== "open") throw this.endedHere();
  }

  protected endedHere(): PoolEndedError {
    return new PoolEndedError("pool_closed", `The pool ${this.id} is ${this.state} on this client.`, {
      hint: this.state === "closed" ? "Create a new pool." : "Attach to it again with RLPool.attach.",
    });
  }
}

function asSpace(wire: unknown): ValueObject | null {
  const space = decodeValue(wire ?? null);
  return isValueObject(space) ? space : null;
}
