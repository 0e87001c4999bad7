import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { connect, isIP, type Socket } from "node:net";
import type { NormalHost } from "../policy/hosts.ts";
import { allowsHost } from "../policy/hosts.ts";
import type { Client, Clients } from "./clients.ts";
import { limits } from "./limits.ts";

/** Why a machine is not led somewhere. `status` is that of HTTP. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const mostAddresses = 3;

/**
 * Connects to a host of the machine's list: resolves the name itself and dials an address that it looked at.
 * @throws Refusal
 */
export async function dialAllowed(clients: Clients, client: Client, host: NormalHost, port: number): Promise<Socket> {
  if (client.egress === null || !allowsHost(client.egress, host, port)) {
    throw new Refusal(403, `${showHost(host)}:${port} is not in this machine's egress list`);
  }
  const addresses = host.kind === "address" ? [host.address] : await resolveName(clients, host.name);
  const usable = addresses.filter((address) => clients.isReachable(address, port)).slice(0, mostAddresses);
  if (usable.length === 0) {
    throw new Refusal(
      403,
      `${showHost(host)} has only addresses that machines never reach (private, loopback, the host's own)`,
    );
  }
  for (const address of usable) {
    const socket = await dial(address, port);
    if (socket !== null) return socket;
  }
  throw new Refusal(502, `${showHost(host)}:${port} does not answer`);
}

export function showHost(host: NormalHost): string {
  return host.kind === "name" ? host.name : isIP(host.address) === 6 ? `[${host.address}]` : host.address;
}

async function resolveName(clients: Clients, name: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  resolver.setServers(
    clients.upstreams.map(({ address, port }) => `${address.includes(":") ? `[${address}]` : address}:${port}`),
  );
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  if (addresses.length === 0) throw new Refusal(502, `${name} does not resolve`);
  return addresses;
}

async function dial(host: string, port: number): Promise<Socket | null> {
  const socket = connect({ host, port, allowHalfOpen: true });
  socket.on("error", () => socket.destroy());
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(limits.dialMs) });
    return socket;
  } catch {
    socket.destroy();
    return null;
  }
}
