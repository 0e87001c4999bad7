import type { Worker } from "@sandpool/worker";
import type { App } from "../http/app.ts";
import type { EndpointContext } from "../http/endpoint.ts";
import type { RequestContext } from "../http/serveRequests.ts";
import type { KeyManager } from "../keys/manageKeys.ts";
import type { PoolCreator } from "../pools/createPool.ts";
import { addArchiveRoutes } from "./archives.ts";
import { addBatchRoutes } from "./batches.ts";
import { addPoolCreation } from "./createPool.ts";
import { addKeyRoutes } from "./keys.ts";
import { addMetaRoutes } from "./meta.ts";
import { addPoolRoutes } from "./pools.ts";
import { addStateRoutes } from "./states.ts";
import { addStreamRoute } from "./stream.ts";

export interface RouteContext extends RequestContext, EndpointContext {
  worker: Worker;
  creator: PoolCreator;
  keys: KeyManager;
}

/** Every route of version 1. */
export function addRoutes(app: App, context: RouteContext): void {
  addMetaRoutes(app, context);
  addArchiveRoutes(app, context);
  addPoolCreation(app, context);
  addPoolRoutes(app, context);
  addBatchRoutes(app, context);
  addStateRoutes(app, context);
  addStreamRoute(app, context);
  addKeyRoutes(app, context);
}
