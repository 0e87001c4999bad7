import {
  MachineParams,
  MakeLinkRequest,
  PortEntry,
  PortLink,
  PortList,
  PortParams,
  RevokedLinks,
  SetPortRequest,
} from "@sandpool/protocol";
import type { FastifyRequest } from "fastify";
import type { App } from "../http/app.ts";
import { callerOf } from "../http/gate.ts";
import { describePort, listPorts } from "../ports/describe.ts";
import { makeLink } from "../ports/makeLink.ts";
import type { RouteContext } from "./addRoutes.ts";

const BASE = "/v1/machines/:machine/ports";

/** What is said about ports; what is said to them passes no route (`ports/handlePort.ts`). */
export function addPortRoutes(app: App, context: RouteContext): void {
  const { machines, journal } = context;
  app.get(BASE, { schema: { params: MachineParams, response: { 200: PortList } } }, async (request) => {
    const { record, live } = await machines.find(callerOf(request.raw).owner, request.params.machine);
    return { ports: await listPorts(context, record, live, request.raw) };
  });
  app.put(
    `${BASE}/:port`,
    { schema: { params: PortParams, body: SetPortRequest, response: { 200: PortEntry } } },
    async (request) => {
      const { caller, record } = recordOf(context, request);
      const { port } = request.params;
      const change = () => machines.setPublicPort(record, port, request.body.public);
      await journal.audited("machine.port", caller, record.id, change);
      return describePort(context, record, { port, pid: null }, request.raw);
    },
  );
  app.post(
    `${BASE}/:port/link`,
    { schema: { params: PortParams, body: MakeLinkRequest, response: { 200: PortLink } } },
    async (request, reply) => {
      const { caller, record } = recordOf(context, request);
      const make = async () => makeLink(context, record, request.params.port, request.body.expires);
      const link = await journal.audited("machine.link", caller, record.id, make);
      return reply.header("Cache-Control", "no-store").send(link);
    },
  );
  app.delete(
    `${BASE}/:port/link`,
    { schema: { params: PortParams, response: { 200: RevokedLinks } } },
    async (request) => {
      const { caller, record } = recordOf(context, request);
      await journal.audited("machine.link.revoke", caller, record.id, () => machines.rotateSecret(record));
      return { revoked: true as const };
    },
  );
}

function recordOf({ machines }: RouteContext, request: FastifyRequest<{ Params: { machine: string } }>) {
  const caller = callerOf(request.raw);
  return { caller, record: machines.record(caller.owner, request.params.machine) };
}
