import { DroppedStates, DropRequest, StateList } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ id: Type.String({ maxLength: 64 }) });
const Memory = Type.Object({ memory: Type.Optional(Type.Boolean()) });

/** A pool's saved states, but for the save itself, which is a batch. */
export function addStateRoutes(app: App, { catalog, limits, journal, states }: RouteContext): void {
  app.get(
    "/v1/pools/:id/states",
    { schema: { params: Params, querystring: Memory, response: { 200: StateList } } },
    (request) => {
      const pool = catalog.find(callerOf(request.raw).owner, request.params.id);
      return pool.states({ memory: request.query.memory ?? false });
    },
  );
  app.delete(
    "/v1/pools/:id/states",
    {
      bodyLimit: limits.batchBodyBytes,
      schema: { params: Params, body: DropRequest, response: { 200: DroppedStates } },
    },
    async (request) => {
      const caller = callerOf(request.raw);
      const pool = catalog.find(caller.owner, request.params.id);
      const dropped = await journal.audited("pool.drop", caller, pool.id, () => pool.drop(request.body.states));
      states.dropped(pool, dropped.length);
      return { dropped };
    },
  );
}
