import type { CreatePoolRequest } from "@sandpool/protocol";
import { fail } from "../fail.ts";
import type { PoolRegistry } from "../worker.ts";
import { type CreateContext, createPool } from "./create.ts";
import { type CloseReason, poolGone } from "./gone.ts";
import type { LocalPool } from "./pool.ts";

/** Closed pools whose end is still told apart from "never existed". */
const rememberedClosed = 1000;

export interface LocalPoolRegistry extends PoolRegistry {
  closeAll(): Promise<void>;
}

/** The pools of this worker by id and, per owner, by name. */
export function makePoolRegistry(context: CreateContext): LocalPoolRegistry {
  const pools = new Map<string, LocalPool>();
  const closed = new Map<string, { owner: string; name: string | null; reason: CloseReason | null }>();
  const closing = new Set<Promise<void>>();
  const ending = new AbortController();
  const creating = new Map<symbol, { owner: string; name: string | null; done: Promise<unknown> }>();

  const onClosing = (pool: LocalPool): void => {
    pools.delete(pool.id);
    closed.set(pool.id, { owner: pool.owner, name: pool.name, reason: pool.closeReason });
    if (closed.size > rememberedClosed) closed.delete(closed.keys().next().value as string);
    // `close` gives every caller the same promise; the worker's own end waits for those that others began.
    queueMicrotask(() => {
      const done = pool.close().catch(() => {});
      closing.add(done);
      void done.finally(() => closing.delete(done));
    });
  };

  const checkRoom = (owner: string, request: CreatePoolRequest): void => {
    if (ending.signal.aborted) throw fail("server_closing", "This server is closing and makes no new pools.");
    const { poolsMax } = context.limits;
    if (pools.size + creating.size >= poolsMax) {
      throw fail("quota", `This server has ${pools.size + creating.size} pools; at most ${poolsMax} are allowed.`, {
        hint: "Close a pool you no longer need.",
        details: { pools_max: poolsMax },
      });
    }
    const { name } = request;
    if (name === null) return;
    const taken = [...pools.values(), ...creating.values()].some((pool) => pool.owner === owner && pool.name === name);
    if (taken) {
      throw fail("name_taken", `A live pool is already named ${JSON.stringify(name)}.`, {
        hint: "Close it first or choose another name.",
        details: { name },
      });
    }
  };

  const create: PoolRegistry["create"] = async (owner, request, rawBody, options) => {
    checkRoom(owner, request);
    const signal = AbortSignal.any([options.signal, ending.signal]);
    const key = Symbol(owner);
    const done = createPool(context, owner, request, rawBody, { ...options, signal }, onClosing);
    creating.set(key, { owner, name: request.name, done });
    try {
      const pool = await done;
      pools.set(pool.id, pool);
      return pool;
    } finally {
      creating.delete(key);
    }
  };

  const get: PoolRegistry["get"] = (owner, idOrName) => {
    const byId = pools.get(idOrName);
    const found =
      byId?.owner === owner ? byId : [...pools.values()].find((pool) => pool.owner === owner && pool.name === idOrName);
    if (found !== undefined) return found;
    const past = closed.get(idOrName);
    if (past?.owner === owner) throw poolGone(idOrName, past.reason);
    throw fail("pool_not_found", `There is no pool ${JSON.stringify(idOrName.slice(0, 80))}.`, {
      hint: "List your pools; a name is free again once its pool is closed.",
      details: { pool: idOrName.slice(0, 80) },
    });
  };

  return {
    create,
    get,
    list: (owner) => [...pools.values()].filter((pool) => pool.owner === owner),
    closeAll: async () => {
      ending.abort(fail("server_closing", "The server closed while the pool was being created."));
      await Promise.allSettled([...creating.values()].map(({ done }) => done));
      await Promise.allSettled([...pools.values()].map((pool) => pool.close("server_stopped")));
      await Promise.allSettled(closing);
    },
  };
}
