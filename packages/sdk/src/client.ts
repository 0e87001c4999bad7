import type { Capabilities, Collected, CreatedKey, KeyDescription, PoolReply, Storage } from "@sandpool/protocol";
import { discoverEndpoint } from "./http/credentials.ts";
import { Transport } from "./http/transport.ts";
import { Images } from "./images/images.ts";
import { Machines } from "./machines/machines.ts";
import type { MachineOptions } from "./machines/options.ts";
import { Sandbox } from "./machines/sandbox.ts";
import type { PoolOptions } from "./pool/options.ts";
import { RLPool } from "./pool/rlpool.ts";

export interface SandpoolOptions {
  url?: string;
  apiKey?: string;
}

/**
 * A server and a key. Without options: `SANDPOOL_URL` with `SANDPOOL_API_KEY`, else the credentials file of `sandpool up`.
 *
 * @example
 * const sandpool = new Sandpool();
 * for (const pool of await sandpool.listPools()) console.log(pool.id, pool.n);
 */
export class Sandpool {
  readonly url: string;
  readonly machines: Machines;
  readonly images: Images;
  private readonly transport: Transport;

  constructor(options: SandpoolOptions = {}) {
    this.transport = new Transport(discoverEndpoint(options));
    this.url = this.transport.endpoint.url;
    this.machines = new Machines(this.transport);
    this.images = new Images(this.transport);
  }

  /** A machine for a block of code: `await using sandbox = await sandpool.sandbox({ size: "large" })` deletes it at the end. */
  sandbox(options: MachineOptions = {}): Promise<Sandbox> {
    return Sandbox.create(this.transport, options);
  }

  /** `RLPool.create` on this server. */
  async createPool(environmentPath: string, options: PoolOptions): Promise<RLPool> {
    return RLPool.create(environmentPath, options, { transport: this.transport });
  }

  /** `RLPool.attach` on this server. */
  async attachPool(idOrName: string): Promise<RLPool> {
    return RLPool.attach(idOrName, { transport: this.transport });
  }

  async listPools(): Promise<PoolReply[]> {
    return ((await this.get("/v1/pools")) as { pools: PoolReply[] }).pools;
  }

  /** A pool by id or name, with its rows; `memory` samples every environment's PSS. */
  async poolStatus(idOrName: string, options: { memory?: boolean } = {}): Promise<PoolReply> {
    return (await this.get(`${poolPath(idOrName)}?memory=${options.memory === true}`)) as PoolReply;
  }

  /** The last 64 KiB of a row's standard error, as it came: escape it before showing it in a terminal. */
  async poolLogs(idOrName: string, row: number): Promise<string> {
    const path = `${poolPath(idOrName)}/logs?row=${row}`;
    return this.transport.send("GET", path, { accept: "text/plain", retries: 3 }, (reply) => reply.body.text());
  }

  /** Closes a pool by id or name; nothing of it is left when this returns. */
  async closePool(idOrName: string): Promise<{ id: string; closed: true }> {
    return (await this.transport.json("DELETE", poolPath(idOrName), { retries: 3 })) as { id: string; closed: true };
  }

  /** What the server's host can run, and why not what it cannot. */
  async capabilities(): Promise<Capabilities> {
    return (await this.get("/v1/capabilities")) as Capabilities;
  }

  /** Version of a server that answers; throws `ConnectionError` when none does. */
  async health(): Promise<{ status: string; version: string }> {
    return (await this.transport.json("GET", "/v1/health")) as { status: string; version: string };
  }

  /** What the server keeps on its disk, and how much is free. */
  async storage(): Promise<Storage> {
    return (await this.get("/v1/storage")) as Storage;
  }

  /** Removes what nothing uses, least recently used first; with `dryRun` it only says what that would be. */
  async collectStorage(options: { dryRun?: boolean } = {}): Promise<Collected> {
    const body = JSON.stringify({ dry_run: options.dryRun === true });
    return (await this.transport.json("POST", "/v1/storage/gc", { body })) as Collected;
  }

  async listKeys(): Promise<KeyDescription[]> {
    return ((await this.get("/v1/keys")) as { keys: KeyDescription[] }).keys;
  }

  /** Makes a key; its text is in this reply only. */
  async createKey(name: string, options: { owner?: string } = {}): Promise<CreatedKey> {
    return (await this.transport.json("POST", "/v1/keys", {
      body: JSON.stringify({ name, ...options }),
    })) as CreatedKey;
  }

  async revokeKey(id: string): Promise<{ id: string; revoked: true }> {
    return (await this.transport.json("DELETE", `/v1/keys/${encodeURIComponent(id)}`)) as { id: string; revoked: true };
  }

  private get(path: string): Promise<unknown> {
    return this.transport.json("GET", path, { retries: 1 });
  }
}

function poolPath(idOrName: string): string {
  return `/v1/pools/${encodeURIComponent(idOrName)}`;
}
