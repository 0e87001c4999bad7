import type { IncomingMessage } from "node:http";
import {
  DeletedMachine,
  Machine,
  MachineList,
  MachineListQuery,
  MachineParams,
  PatchMachineRequest,
  SandpoolError,
} from "@sandpool/protocol";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { amendMachine, renewLease } from "../machines/amend.ts";
import { deleteMachine } from "../machines/delete.ts";
import { describeMachine } from "../machines/describe.ts";
import { readLogs } from "../machines/disk.ts";
import type { MachineEntry } from "../machines/entry.ts";
import { startMachine } from "../machines/start.ts";
import { stopMachine } from "../machines/stop.ts";
import { readIdempotencyKey } from "../pools/idempotency.ts";
import { hostAddress } from "../ports/address.ts";
import type { RouteContext } from "./addRoutes.ts";

export function addMachineRoutes(app: App, context: RouteContext): void {
  addListAndLook(app, context);
  addLife(app, context);
  addDelete(app, context);
}

function addListAndLook(app: App, context: RouteContext): void {
  const { machineLife, limits } = context;
  const { registry } = machineLife;
  app.get(
    "/v1/machines",
    { schema: { querystring: MachineListQuery, response: { 200: MachineList } } },
    async (request) => {
      const own = registry.ofOwner(callerOf(request.raw).owner);
      const labels = [request.query.label ?? []].flat().map(splitLabel);
      const { state } = request.query;
      const shown = own.filter(({ record }) => {
        return (state ?? record.state) === record.state && labels.every(([key, text]) => record.labels[key] === text);
      });
      const machines = await Promise.all(shown.map((entry) => describeEntry(context, entry, request.raw)));
      return { machines, quota: { used: own.length, limit: limits.machinesPerOwner } };
    },
  );
  app.get("/v1/machines/:machine", { schema: { params: MachineParams, response: { 200: Machine } } }, (request) => {
    const entry = registry.entry(callerOf(request.raw).owner, request.params.machine);
    return describeEntry(context, entry, request.raw);
  });
  app.get("/v1/machines/:machine/logs", { schema: { params: MachineParams } }, async (request, reply) => {
    const entry = registry.entry(callerOf(request.raw).owner, request.params.machine);
    // The bytes are a sandbox's: a browser must neither guess a type nor show them as a page.
    reply.header("X-Content-Type-Options", "nosniff").header("Content-Security-Policy", "sandbox").type("text/plain");
    return reply.send(await readLogs(machineLife.context, entry.id));
  });
}

function addLife(app: App, context: RouteContext): void {
  const { machineLife, limits } = context;
  const { registry } = machineLife;
  app.patch(
    "/v1/machines/:machine",
    {
      bodyLimit: limits.smallBodyBytes,
      schema: { params: MachineParams, body: PatchMachineRequest, response: { 200: Machine } },
    },
    async (request) => {
      const caller = callerOf(request.raw);
      const entry = registry.entry(caller.owner, request.params.machine);
      await amendMachine(machineLife.context, entry, request.body, caller);
      return describeEntry(context, entry, request.raw);
    },
  );
  const verbs = { stop: stopMachine, start: startMachine, lease: renewLease };
  for (const [verb, act] of Object.entries(verbs)) {
    app.post(
      `/v1/machines/:machine/${verb}`,
      { schema: { params: MachineParams, response: { 200: Machine } } },
      async (request) => {
        const caller = callerOf(request.raw);
        const entry = registry.entry(caller.owner, (request.params as { machine: string }).machine);
        await act(machineLife.context, entry, caller);
        return describeEntry(context, entry, request.raw);
      },
    );
  }
}

function addDelete(app: App, { machineLife }: RouteContext): void {
  const { registry, creator } = machineLife;
  app.delete(
    "/v1/machines/:machine",
    { schema: { params: MachineParams, response: { 200: DeletedMachine } } },
    async (request) => {
      const caller = callerOf(request.raw);
      const { machine } = request.params;
      const key = readIdempotencyKey(request.headers["idempotency-key"]);
      if (key !== null) await creator.revoke(caller, key);
      try {
        const entry = registry.entry(caller.owner, machine);
        await deleteMachine(machineLife.context, entry, caller);
        return { id: entry.id, deleted: true as const };
      } catch (error) {
        if (!(error instanceof SandpoolError) || error.code !== "machine_not_found") throw error;
        // Deleting twice is no fault, and a key that will make nothing has nothing left.
        const mark = registry.deletedMark(caller.owner, machine);
        if (mark === null && key === null) throw error;
        return { id: mark?.id ?? machine, deleted: true as const };
      }
    },
  );
}

/** What a caller gets of a machine, with what it uses now. */
export async function describeEntry(
  context: Pick<RouteContext, "limits" | "scheme">,
  entry: MachineEntry,
  request: IncomingMessage,
): Promise<Machine> {
  const memoryBytes = (await entry.live?.memoryBytes().catch(() => null)) ?? null;
  return describeMachine(entry.record, context.limits, urlsOf(context, request), memoryBytes);
}

/** Addresses of ports, at the port where the caller reached this server. */
function urlsOf({ scheme }: Pick<RouteContext, "scheme">, request: IncomingMessage) {
  return (name: string, port: number) => {
    const host = new URL(`${scheme}://${request.headers.host}`);
    const listening = Number(host.port) || (scheme === "https" ? 443 : 80);
    return hostAddress(name, port, { scheme, port: listening });
  };
}

function splitLabel(text: string): [string, string] {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
}
