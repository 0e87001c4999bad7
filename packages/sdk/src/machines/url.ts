import type { Machine } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import type { Transport } from "../http/transport.ts";
import { describe } from "../values/describe.ts";
import { machinePath } from "./options.ts";
import { listPorts } from "./ports.ts";

/** Where a port of a machine is reached. */
export interface PortAddress {
  /** `http://8000-box.localhost:7070/`, for browsers and curl; other programs' resolvers may not know `*.localhost`. */
  url: string;
  /** For programs, with the key as for any other route. */
  pathUrl: string;
  /** Whether it answers without a key or link. */
  public: boolean;
  /** Whether something listens there. */
  listening: boolean;
}

/** The addresses of a port: those that the server tells, or would tell if something listened. */
export async function addressOf(transport: Transport, name: string, port: number): Promise<PortAddress> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new ArgumentError(`port is ${describe(port)}; expected a whole number from 1 to 65535.`);
  }
  const machine = (await transport.json("GET", machinePath(name), { retries: 3 })) as Machine;
  const listed = machine.state === "running" ? await listPorts(transport, machine.id) : [];
  const entry = listed.find((candidate) => candidate.port === port);
  if (entry !== undefined) {
    return { url: entry.url, pathUrl: entry.path_url, public: entry.public, listening: true };
  }
  const server = new URL(transport.endpoint.url);
  return {
    url: `${server.protocol}//${port}-${machine.name}.localhost${server.port && `:${server.port}`}/`,
    pathUrl: `${transport.endpoint.url}${machinePath(machine.id, `/ports/${port}/`)}`,
    public: machine.urls[String(port)] !== undefined,
    listening: false,
  };
}
