import { ClosedPool, Lease, PoolList, PoolReply, SandpoolError } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { endpointOf } from "../http/endpoint.ts";
import { callerOf } from "../http/gate.ts";
import { withEndpoint } from "../pools/catalog.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ id: Type.String({ maxLength: 64 }) });
const Memory = Type.Object({ memory: Type.Optional(Type.Boolean()) });
const Row = Type.Object({ row: Type.Integer({ minimum: 0 }) });

export function addPoolRoutes(app: App, context: RouteContext): void {
  const { worker, catalog, creator } = context;
  app.get("/v1/pools", { schema: { response: { 200: PoolList } } }, async (request) => {
    const pools = worker.pools.list(callerOf(request.raw).owner);
    return { pools: pools.map((pool) => withEndpoint(pool.describe(), endpointOf(request.raw, context))) };
  });
  app.get(
    "/v1/pools/:id",
    { schema: { params: Params, querystring: Memory, response: { 200: PoolReply } } },
    async (request) => {
      const pool = catalog.find(callerOf(request.raw).owner, request.params.id);
      const status = await pool.status({ memory: request.query.memory ?? false });
      return { ...withEndpoint(pool.describe(), endpointOf(request.raw, context)), ...status };
    },
  );
  app.delete("/v1/pools/:id", { schema: { params: Params, response: { 200: ClosedPool } } }, async (request) => {
    const caller = callerOf(request.raw);
    const ended = endedId(context, caller.owner, request.params.id);
    if (ended !== null) return { id: ended, closed: true as const };
    const pool = catalog.find(caller.owner, request.params.id);
    await creator.close(caller, pool);
    return { id: pool.id, closed: true as const };
  });
  app.get("/v1/pools/:id/logs", { schema: { params: Params, querystring: Row } }, async (request, reply) => {
    const pool = catalog.find(callerOf(request.raw).owner, request.params.id);
    const { row } = request.query;
    if (row >= pool.n) throw noSuchRow(row, pool.n);
    // The bytes are a sandbox's: a browser must neither guess a type nor show them as a page.
    reply.header("X-Content-Type-Options", "nosniff").header("Content-Security-Policy", "sandbox").type("text/plain");
    return reply.send(await pool.logs(row));
  });
  app.post("/v1/pools/:id/lease", { schema: { params: Params, response: { 200: Lease } } }, async (request) => {
    const pool = catalog.find(callerOf(request.raw).owner, request.params.id);
    pool.keepAlive();
    const { lease } = pool.describe();
    return { lease: lease.seconds, expires_at: lease.expires_at };
  });
}

/** Deleting twice is no fault: a pool that already ended has nothing left. */
function endedId({ catalog }: RouteContext, owner: string, idOrName: string): string | null {
  try {
    catalog.find(owner, idOrName);
    return null;
  } catch (error) {
    const ended = error instanceof SandpoolError && (error.code === "pool_closed" || error.code === "pool_lost");
    return ended ? (catalog.ended(owner, idOrName)?.id ?? null) : null;
  }
}

function noSuchRow(row: number, n: number): SandpoolError {
  return new SandpoolError("invalid_request", `row is ${row}, this pool has the rows 0 to ${n - 1}`, {
    details: { received: row, n },
  });
}
