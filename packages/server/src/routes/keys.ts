import { CreatedKey, CreateKeyRequest, KeyList, RevokedKey } from "@sandpool/protocol";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ id: Type.String({ maxLength: 64 }) });

export function addKeyRoutes(app: App, { keys, limits }: RouteContext): void {
  app.get("/v1/keys", { schema: { response: { 200: KeyList } } }, async (request) => {
    return { keys: keys.list(callerOf(request.raw)) };
  });
  app.post(
    "/v1/keys",
    { bodyLimit: limits.smallBodyBytes, schema: { body: CreateKeyRequest, response: { 201: CreatedKey } } },
    async (request, reply) => {
      const made = await keys.create(callerOf(request.raw), request.body);
      return reply.code(201).header("Cache-Control", "no-store").send(made);
    },
  );
  app.delete("/v1/keys/:id", { schema: { params: Params, response: { 200: RevokedKey } } }, async (request) => {
    await keys.revoke(callerOf(request.raw), request.params.id);
    return { id: request.params.id, revoked: true as const };
  });
}
