import { type PoolDescription, type PoolReply, SandpoolError } from "@sandpool/protocol";
import type { Pool, Worker } from "@sandpool/worker";
import type { PoolEndpoint } from "../http/endpoint.ts";
import type { Store } from "../store/openStore.ts";
import { now } from "../store/operations.ts";
import type { PoolRow } from "../store/tables.ts";

const REMEMBERED_POOLS = 10_000;

type Ended = "deleted" | "lease" | "server_stopped" | "lost";
interface KnownPool {
  id: string;
  owner: string;
  name: string | null;
  ended: Ended | null;
}

/**
 * Every pool this server promised, live or ended, so that a call to one that ended says what became of it.
 * The worker has the live ones; lookups never touch the store.
 */
export class PoolCatalog {
  readonly #worker: Worker;
  readonly #store: Store;
  readonly #known = new Map<string, KnownPool>();

  private constructor(worker: Worker, store: Store) {
    this.#worker = worker;
    this.#store = store;
  }

  /** Pools the store still calls ready belonged to a server that crashed: they are lost. */
  static async open(worker: Worker, store: Store): Promise<PoolCatalog> {
    const catalog = new PoolCatalog(worker, store);
    await store.updateTable("pools").set({ state: "lost", ended_at: now() }).where("state", "=", "ready").execute();
    const rows = await store
      .selectFrom("pools")
      .selectAll()
      .orderBy("created_at", "desc")
      .limit(REMEMBERED_POOLS)
      .execute();
    for (const row of rows.reverse()) catalog.#known.set(row.id, knownFrom(row));
    return catalog;
  }

  /** The live pool of that id or name. Throws `pool_not_found`, `pool_lost` or `pool_closed`. */
  find(owner: string, idOrName: string): Pool {
    try {
      return this.#worker.pools.get(owner, idOrName);
    } catch (error) {
      throw this.#explain(owner, idOrName, error);
    }
  }

  #explain(owner: string, idOrName: string, error: unknown): unknown {
    if (!(error instanceof SandpoolError) || error.code !== "pool_not_found") return error;
    const known = this.ended(owner, idOrName);
    return known === null ? error : endedError(known);
  }

  /** The newest pool of that id or name that this server knows but the worker no longer has. */
  ended(owner: string, idOrName: string): (KnownPool & { ended: Ended }) | null {
    let found = this.#known.get(idOrName);
    if (found === undefined) for (const known of this.#known.values()) if (known.name === idOrName) found = known;
    if (found === undefined || found.owner !== owner) return null;
    if (found.ended === null) void this.recordEnd(found.id, "lease");
    return { ...found, ended: found.ended ?? "lease" };
  }

  async recordStart(owner: string, pool: Pool): Promise<void> {
    this.#known.set(pool.id, { id: pool.id, owner, name: pool.name, ended: null });
    if (this.#known.size > REMEMBERED_POOLS) this.#forgetOldest();
    await this.#store
      .insertInto("pools")
      .values({ id: pool.id, owner, name: pool.name, state: "ready", reason: null, created_at: now(), ended_at: null })
      .execute();
  }

  #forgetOldest(): void {
    for (const known of this.#known.values()) {
      if (known.ended === null) continue;
      this.#known.delete(known.id);
      return;
    }
  }

  async recordEnd(id: string, reason: Exclude<Ended, "lost">): Promise<void> {
    const known = this.#known.get(id);
    if (known) known.ended = reason;
    await this.#store
      .updateTable("pools")
      .set({ state: "closed", reason, ended_at: now() })
      .where("id", "=", id)
      .where("state", "=", "ready")
      .execute();
  }

  /** At a clean stop, after the worker closed them. */
  async recordStop(): Promise<void> {
    await this.#store
      .updateTable("pools")
      .set({ state: "closed", reason: "server_stopped", ended_at: now() })
      .where("state", "=", "ready")
      .execute();
  }

  /** Every live pool of every owner. */
  live(): Pool[] {
    const owners = new Set([...this.#known.values()].map((known) => known.owner));
    return [...owners].flatMap((owner) => this.#worker.pools.list(owner));
  }
}

/** What clients get: the worker's description, and where to send the batches. */
export function withEndpoint(description: PoolDescription, endpoint: PoolEndpoint): PoolReply {
  return { ...description, endpoint };
}

function knownFrom(row: PoolRow): KnownPool {
  const ended = row.state === "lost" ? "lost" : ((row.reason ?? "deleted") as Ended);
  return { id: row.id, owner: row.owner, name: row.name, ended };
}

function endedError({ id, ended }: KnownPool & { ended: Ended }): SandpoolError {
  if (ended === "lost") {
    return new SandpoolError("pool_lost", `the pool ${id} ended with an earlier server process`, {
      hint: "create it again; with the same seed its episodes repeat",
      details: { id },
    });
  }
  const reasons = {
    deleted: "it was deleted",
    lease: "no request came within its lease",
    server_stopped: "its server was stopped",
  };
  return new SandpoolError("pool_closed", `the pool ${id} is closed: ${reasons[ended]}`, {
    hint: ended === "lease" ? "create it with a longer lease, or keep it alive with POST …/lease" : "create a new pool",
    details: { id, reason: ended },
  });
}
