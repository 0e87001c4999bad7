import type { PortLink } from "@sandpool/protocol";
import type { MachineRecord } from "../machines/record.ts";
import { hostAddress } from "./address.ts";
import type { PortContext } from "./handlePort.ts";
import { LINK_NAME, signLink } from "./links.ts";

const DEFAULT_SECONDS = 3600;

/** An address that opens one port without a key, for at most a day. It names the machine by its id: a name may be another machine's one day. */
export function makeLink(
  { machines, gate }: PortContext,
  record: Readonly<MachineRecord>,
  port: number,
  seconds = DEFAULT_SECONDS,
): PortLink {
  const expiresAt = Math.ceil(Date.now() / 1000 + seconds);
  const token = signLink(machines.secretOf(record), { machineId: record.id, port }, expiresAt);
  return {
    url: `${hostAddress(record.id, port, gate.listening)}?${LINK_NAME}=${token}`,
    expires_at: new Date(expiresAt * 1000).toISOString(),
  };
}
