import type { IncomingMessage } from "node:http";
import type { PortEntry } from "@sandpool/protocol";
import type { LiveMachine } from "@sandpool/worker";
import type { MachineRecord } from "../machines/record.ts";
import { hostAddress } from "./address.ts";
import type { PortContext } from "./handlePort.ts";

/** Ports on which something listens, and those that are public though nothing does. */
export async function listPorts(
  context: PortContext,
  record: Readonly<MachineRecord>,
  live: LiveMachine,
  request: IncomingMessage,
): Promise<PortEntry[]> {
  const listening = new Map((await live.listPorts()).map(({ port, pid }) => [port, pid]));
  const open = context.machines.publicPorts(record);
  const ports = [...new Set([...listening.keys(), ...open])].sort((one, other) => one - other);
  return ports.map((port) => describePort(context, record, { port, pid: listening.get(port) ?? null }, request));
}

/** A port's two addresses: as the caller reached the server (its Host header has passed the exact list), and for browsers. */
export function describePort(
  context: PortContext,
  record: Readonly<MachineRecord>,
  { port, pid }: { port: number; pid: number | null },
  request: IncomingMessage,
): PortEntry {
  return {
    port,
    pid,
    public: context.machines.publicPorts(record).has(port),
    url: hostAddress(record.name, port, context.gate.listening),
    path_url: `${context.scheme}://${request.headers.host}/v1/machines/${record.id}/ports/${port}/`,
  };
}
