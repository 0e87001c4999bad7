import { SandpoolError } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { StreamQuery } from "../stream/readOpening.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ id: Type.String() });

/** The stream as an ordinary route: what comes here did not ask for a WebSocket (`stream/` takes those before), but `/openapi.json` lists it. */
export function addStreamRoute(app: App, { catalog }: RouteContext): void {
  app.route({
    method: "GET",
    url: "/v1/pools/:id/stream",
    exposeHeadRoute: false,
    schema: { params: Params, querystring: StreamQuery },
    validatorCompiler: () => () => true,
    handler: async (request) => {
      catalog.find(callerOf(request.raw).owner, (request.params as { id: string }).id);
      throw new SandpoolError(
        "upgrade_required",
        "a pool's stream is a WebSocket, and the request asked for no upgrade",
        {
          hint: "open ws://…/v1/pools/{id}/stream?session=… with a WebSocket client",
        },
      );
    },
  });
}
