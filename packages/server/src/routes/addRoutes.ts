import type { Worker } from "@sandpool/worker";
import type { ExecShared } from "../exec/context.ts";
import type { App } from "../http/app.ts";
import type { EndpointContext } from "../http/endpoint.ts";
import type { RequestContext } from "../http/serveRequests.ts";
import type { KeyManager } from "../keys/manageKeys.ts";
import type { MachineCatalog } from "../machines/catalog.ts";
import type { Machines } from "../machines/machines.ts";
import type { PoolCreator } from "../pools/createPool.ts";
import { addArchiveRoutes } from "./archives.ts";
import { addBatchRoutes } from "./batches.ts";
import { addMachineCreation } from "./createMachine.ts";
import { addPoolCreation } from "./createPool.ts";
import { addImageRoutes } from "./images.ts";
import { addKeyRoutes } from "./keys.ts";
import { addExecRoutes } from "./machineExec.ts";
import { addFileRoutes } from "./machineFiles.ts";
import { addPortRoutes } from "./machinePorts.ts";
import { addMachineRoutes } from "./machines.ts";
import { addMetaRoutes } from "./meta.ts";
import { addPoolRoutes } from "./pools.ts";
import { addStateRoutes } from "./states.ts";
import { addStorageRoutes } from "./storage.ts";
import { addStreamRoute } from "./stream.ts";

export interface RouteContext extends RequestContext, EndpointContext {
  worker: Worker;
  creator: PoolCreator;
  keys: KeyManager;
  /** For calls to a machine that runs. */
  machines: MachineCatalog;
  /** What makes, stops, starts and removes them. */
  machineLife: Machines;
  execs: ExecShared;
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
  addMachineCreation(app, context);
  addMachineRoutes(app, context);
  addExecRoutes(app, context);
  addFileRoutes(app, context);
  addPortRoutes(app, context);
  addImageRoutes(app, context);
  addStorageRoutes(app, context);
  addKeyRoutes(app, context);
}
