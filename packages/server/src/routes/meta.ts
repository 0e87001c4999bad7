import { Capabilities, Health, VERSION } from "@sandpool/protocol";
import type { App } from "../http/app.ts";
import type { RouteContext } from "./addRoutes.ts";

export function addMetaRoutes(app: App, { worker, metrics }: RouteContext): void {
  app.get("/v1/health", { schema: { security: [], response: { 200: Health } } }, async () => {
    return { status: "ok" as const, version: VERSION };
  });
  app.get("/v1/capabilities", { schema: { response: { 200: Capabilities } } }, () => worker.capabilities());
  app.get("/metrics", { schema: { description: "Prometheus text" } }, async (_request, reply) => {
    reply.type(metrics.registry.contentType);
    return reply.send(await metrics.registry.metrics());
  });
  app.get("/openapi.json", { schema: { description: "this document" } }, async (_request, reply) => {
    return reply.type("application/json").send(JSON.stringify(app.swagger()));
  });
}
