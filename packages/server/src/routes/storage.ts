import { Collected, CollectRequest, SandpoolError, Storage } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { collect, showStorage } from "../storage/collect.ts";
import type { RouteContext } from "./addRoutes.ts";

/** What the host's disk is used for, by all owners together. */
export function addStorageRoutes(app: App, context: RouteContext): void {
  const { worker, machineLife, journal, limits } = context;
  const { images, dataDir, logger } = machineLife.context;
  const stored = { storage: worker.storage, registry: machineLife.registry, images, limits, dataDir, logger };
  app.get("/v1/storage", { schema: { response: { 200: Storage } } }, () => showStorage(stored));
  app.post(
    "/v1/storage/gc",
    {
      bodyLimit: limits.smallBodyBytes,
      schema: { body: Type.Optional(CollectRequest), response: { 200: Collected } },
    },
    (request) => {
      const caller = callerOf(request.raw);
      if (!caller.admin) throw notAllowed();
      const dryRun = request.body?.dry_run ?? false;
      if (dryRun) return collect(stored, { dryRun });
      return journal.audited("storage.gc", caller, "storage", () => collect(stored, { dryRun }));
    },
  );
}

function notAllowed(): SandpoolError {
  return new SandpoolError("forbidden", "only an administrator's key removes what all keys of this host share", {
    hint: "ask the operator for `sandpool gc`",
  });
}
