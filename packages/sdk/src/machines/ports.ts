import type { PortEntry, PortLink, PortList } from "@sandpool/protocol";
import type { Transport } from "../http/transport.ts";
import { requestJson } from "../values/json.ts";
import { checkSeconds, machinePath } from "./options.ts";

/** Listening TCP ports inside, each with its addresses. */
export async function listPorts(transport: Transport, machine: string): Promise<PortEntry[]> {
  const reply = await transport.json("GET", machinePath(machine, "/ports"), { retries: 3 });
  return (reply as PortList).ports;
}

/** Whether a port answers without a key or link, and its addresses. */
export async function setPort(
  transport: Transport,
  machine: string,
  port: number,
  isPublic: boolean,
): Promise<PortEntry> {
  const body = requestJson({ public: isPublic });
  return (await transport.json("PUT", machinePath(machine, `/ports/${port}`), { body, retries: 3 })) as PortEntry;
}

/** A signed address that works without a key until it expires. */
export async function makeLink(
  transport: Transport,
  machine: string,
  port: number,
  expiresSeconds: number | undefined,
): Promise<PortLink> {
  checkSeconds("expiresSeconds", expiresSeconds);
  const body = requestJson(expiresSeconds === undefined ? {} : { expires: expiresSeconds });
  return (await transport.json("POST", machinePath(machine, `/ports/${port}/link`), { body })) as PortLink;
}
