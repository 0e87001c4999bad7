import { Image, ImageList, ImportImageQuery, MakeImageRequest, RemovedImage, SandpoolError } from "@sandpool/protocol";
import { Type } from "typebox";
import { RequestBody } from "../files/requestBody.ts";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { answerMaking } from "../images/make.ts";
import type { RouteContext } from "./addRoutes.ts";

const Params = Type.Object({ image: Type.String({ minLength: 1, maxLength: 512 }) });
const PRODUCES = ["application/json", "application/x-ndjson"];

/** Images of this host, which all its keys share: any may make one, an administrator's key removes and replaces. */
export function addImageRoutes(app: App, context: RouteContext): void {
  const { images } = context.worker;
  app.get("/v1/images", { schema: { response: { 200: ImageList } } }, async () => ({ images: await images.list() }));
  app.post(
    "/v1/images",
    { schema: { body: MakeImageRequest, produces: PRODUCES, response: { 201: Image } } },
    async (request, reply) => {
      const { body } = request;
      const isBuild = "build" in body;
      return await answerMaking(context, request, reply, {
        kind: isBuild ? "image.build" : "image.pull",
        name: isBuild ? body.build : body.pull,
        make: (options) => (isBuild ? images.build(body.build, options) : images.pull(body.pull, options)),
      });
    },
  );
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
    addImport(scope as App, context);
  });
  app.delete("/v1/images/:image", { schema: { params: Params, response: { 200: RemovedImage } } }, async (request) => {
    const caller = callerOf(request.raw);
    if (!caller.admin) throw notAllowed("removes");
    const { image: name } = request.params;
    const found = (await images.list()).find(
      (image) => image.id !== null && (image.name === name || image.id === name),
    );
    const id = found?.id ?? (await images.resolve(name)).id;
    await context.journal.audited("image.remove", caller, id, () => images.remove(name, usersOf(context, id)));
    return { id, removed: true as const };
  });
}

function addImport(app: App, context: RouteContext): void {
  const { images } = context.worker;
  app.put(
    "/v1/images",
    {
      schema: {
        querystring: ImportImageQuery,
        consumes: ["application/x-tar"],
        produces: PRODUCES,
        response: { 201: Image },
      },
    },
    async (request, reply) => {
      const { name } = request.query;
      const isTaken = (await images.list()).some((image) => image.name === name && image.id !== null);
      if (isTaken && !callerOf(request.raw).admin) throw notAllowed("replaces");
      const body = new RequestBody(request.raw, context.limits.bodyIdleMs);
      return await answerMaking(context, request, reply, {
        ...{ kind: "image.import", name },
        make: (options) => images.import(name, body, options),
      });
    },
  );
}

/** Names of the machines that were made from an image, whoever has them. */
function usersOf({ machineLife }: RouteContext, id: string): string[] {
  return machineLife.registry
    .all()
    .filter(({ record }) => record.plan.imageId === id)
    .map(({ record }) => record.name);
}

function notAllowed(verb: "removes" | "replaces"): SandpoolError {
  return new SandpoolError("forbidden", `an administrator's key ${verb} images, which all keys of this host share`, {
    hint: verb === "replaces" ? "import it under another name" : "ask the operator",
  });
}
