import {
  Done,
  FileList,
  FileQuery,
  FileReply,
  ListFilesQuery,
  MachineParams,
  MakeFolderRequest,
  MoveFileRequest,
  RemoveFileRequest,
  StatFileQuery,
  WatchFilesQuery,
  WriteFileQuery,
  WrittenFile,
  WrittenTree,
} from "@sandpool/protocol";
import type { FastifyRequest } from "fastify";
import { downloadFile, downloadTree } from "../files/download.ts";
import { uploadFile, uploadTree } from "../files/upload.ts";
import { sendChanges } from "../files/watch.ts";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import type { FoundMachine } from "../machines/catalog.ts";
import type { RouteContext } from "./addRoutes.ts";
import { answerRaw } from "./answerRaw.ts";

const BASE = "/v1/machines/:machine/files";

/** Files inside machines; all paths are resolved inside, by the agent. */
export function addFileRoutes(app: App, context: RouteContext): void {
  addDownloads(app, context);
  // Bodies are bytes here, whatever their type says.
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null, undefined));
    addUploads(scope as App, context);
  });
  addLooks(app, context);
  addChanges(app, context);
}

function addDownloads(app: App, context: RouteContext): void {
  for (const method of ["GET", "HEAD"] as const) {
    app.route({
      method,
      url: BASE,
      exposeHeadRoute: false,
      schema: { params: MachineParams, querystring: FileQuery, produces: ["application/octet-stream"] },
      handler: (request, reply) =>
        answerRaw(context, request, reply, async (response) => {
          const { live } = await find(context, request);
          const { path, user = null } = request.query;
          await downloadFile(live, { path, user }, request.raw, response);
        }),
    });
  }
  app.get(
    `${BASE}/tree`,
    {
      exposeHeadRoute: false,
      schema: { params: MachineParams, querystring: FileQuery, produces: ["application/x-tar"] },
    },
    (request, reply) =>
      answerRaw(context, request, reply, async (response) => {
        const { live } = await find(context, request);
        const { path, user = null } = request.query;
        await downloadTree(live, { path, user }, response);
      }),
  );
}

function addUploads(app: App, context: RouteContext): void {
  const { bodyIdleMs } = context.limits;
  app.put(
    BASE,
    { schema: { params: MachineParams, querystring: WriteFileQuery, response: { 200: WrittenFile } } },
    async (request) => {
      const { live, record } = await find(context, request);
      const { path, user = null, mode, parents = true } = request.query;
      const target = { path, user, mode: mode === undefined ? null : Number.parseInt(mode, 8), parents };
      return await context.journal.audited("machine.file.write", callerOf(request.raw), record.id, () =>
        uploadFile(live, target, request.raw, bodyIdleMs),
      );
    },
  );
  app.put(
    `${BASE}/tree`,
    { schema: { params: MachineParams, querystring: FileQuery, response: { 200: WrittenTree } } },
    async (request) => {
      const { live, record } = await find(context, request);
      const { path, user = null } = request.query;
      return await context.journal.audited("machine.tree.write", callerOf(request.raw), record.id, () =>
        uploadTree(live, { path, user }, request.raw, bodyIdleMs),
      );
    },
  );
}

function addLooks(app: App, context: RouteContext): void {
  app.get(
    `${BASE}/list`,
    { schema: { params: MachineParams, querystring: ListFilesQuery, response: { 200: FileList } } },
    async (request) => {
      const { live } = await find(context, request);
      const { path, user = null, depth = 1, after = null } = request.query;
      return await live.listFiles(path, { user, depth, after });
    },
  );
  app.get(
    `${BASE}/stat`,
    { schema: { params: MachineParams, querystring: StatFileQuery, response: { 200: FileReply } } },
    async (request) => {
      const { live } = await find(context, request);
      const { path, user = null, follow = false } = request.query;
      return { entry: await live.statFile(path, { user, follow }) };
    },
  );
  app.get(
    `${BASE}/watch`,
    {
      exposeHeadRoute: false,
      schema: { params: MachineParams, querystring: WatchFilesQuery, produces: ["application/x-ndjson"] },
    },
    (request, reply) =>
      answerRaw(context, request, reply, async (response) => {
        const { live } = await find(context, request);
        const { path, user = null, recursive = false } = request.query;
        const changes = await live.watchFiles(path, { user, recursive });
        await sendChanges(changes, response, context.limits.heartbeatMs);
      }),
  );
}

function addChanges(app: App, context: RouteContext): void {
  app.post(
    `${BASE}/make`,
    { schema: { params: MachineParams, body: MakeFolderRequest, response: { 200: Done } } },
    async (request) => {
      const { live } = await find(context, request);
      const { path, user = null, mode = null, parents = true } = request.body;
      await live.makeFolder(path, { user, mode, parents });
      return {};
    },
  );
  app.post(
    `${BASE}/move`,
    { schema: { params: MachineParams, body: MoveFileRequest, response: { 200: Done } } },
    async (request) => {
      const { live } = await find(context, request);
      const { from, to, user = null, replace = false } = request.body;
      await live.moveFile(from, to, { user, replace });
      return {};
    },
  );
  app.post(
    `${BASE}/remove`,
    { schema: { params: MachineParams, body: RemoveFileRequest, response: { 200: Done } } },
    async (request) => {
      const { live } = await find(context, request);
      const { path, user = null, recursive = false } = request.body;
      await live.removeFile(path, { user, recursive });
      return {};
    },
  );
}

function find(context: RouteContext, request: FastifyRequest<{ Params: { machine: string } }>): Promise<FoundMachine> {
  return context.machines.find(callerOf(request.raw).owner, request.params.machine);
}
