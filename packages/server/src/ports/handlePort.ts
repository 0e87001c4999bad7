import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type { Gate } from "../http/gate.ts";
import type { MachineCatalog } from "../machines/catalog.ts";
import type { ServerLimits } from "../options.ts";
import type { PortAddress } from "./address.ts";
import { type AdmittedRequest, admitPortRequest } from "./admit.ts";
import { type Forwarding, forward } from "./forward.ts";
import { linkCookie } from "./links.ts";
import { forwardUpgrade } from "./upgrade.ts";

export interface PortContext {
  gate: Gate;
  machines: MachineCatalog;
  scheme: "http" | "https";
  limits: Pick<ServerLimits, "maxHeaderBytes">;
}

/** Answers a request for a program on a machine's port. The caller answers what it throws. */
export async function handlePort(
  context: PortContext,
  address: PortAddress,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const admitted = admit(context, address, request);
  const { link } = admitted;
  if (address.form === "host" && link !== null && (request.method === "GET" || request.method === "HEAD")) {
    const cookie = linkCookie(link.token, link.expiresAt, Date.now(), context.scheme);
    response.writeHead(303, {
      // With scheme and host: a path of two slashes would be another host's.
      Location: `${context.scheme}://${request.headers.host}${admitted.target}`,
      "Set-Cookie": cookie,
      "Cache-Control": "no-store",
      "Referrer-Policy": "no-referrer",
      "Content-Length": 0,
    });
    response.end();
    return;
  }
  const forwarding = await connect(context, address, admitted);
  // The client may have gone while the machine was asked.
  if (response.destroyed) forwarding.connection.destroy();
  else await forward(request, response, forwarding);
}

/** The same for a request that asks to become something else than HTTP. */
export async function handlePortUpgrade(
  context: PortContext,
  address: PortAddress,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const forwarding = await connect(context, address, admit(context, address, request));
  if (socket.destroyed) forwarding.connection.destroy();
  else await forwardUpgrade(request, socket, head, forwarding);
}

function admit(context: PortContext, address: PortAddress, request: IncomingMessage): AdmittedRequest {
  context.gate.checkPortHost(request, address.form);
  const admitted = admitPortRequest(request, address, context);
  const byId = address.machine === admitted.machine.id;
  if (request.headers["service-worker"] !== undefined && !(address.form === "host" && byId))
    throw noServiceWorker(address);
  return admitted;
}

async function connect(context: PortContext, address: PortAddress, admitted: AdmittedRequest): Promise<Forwarding> {
  const { live } = await context.machines.findById(admitted.machine.id);
  const connection = await live.dialPort(address.port).catch((error: unknown) => {
    throw portRefused(address, admitted.machine.name, error);
  });
  return { address, admitted, scheme: context.scheme, connection, maxHeaderBytes: context.limits.maxHeaderBytes };
}

/** Names the port in words, whatever a lower layer knew of it. */
function portRefused({ port }: PortAddress, name: string, error: unknown): unknown {
  if (!(error instanceof SandpoolError) || error.code !== "port_refused") return error;
  return new SandpoolError("port_refused", `nothing listens on port ${port} of ${name}`, {
    hint: "start the program first; it may listen on 127.0.0.1, ::1 or every address of the machine",
    details: { port },
    cause: error,
  });
}

/** It would stay in the browser after the machine is gone, in charge of an address that others come to have. */
function noServiceWorker({ form, port }: PortAddress): SandpoolError {
  const where = form === "path" ? "the path form of a port" : "a machine's name";
  return new SandpoolError("forbidden", `a service worker was asked for under ${where}, where none may stand`, {
    hint: `open the port under the machine's id: ${port}-ID.localhost`,
  });
}
