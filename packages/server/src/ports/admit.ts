import type { IncomingMessage } from "node:http";
import { isMachineId, SandpoolError } from "@sandpool/protocol";
import type { Gate } from "../http/gate.ts";
import type { Identity } from "../keys/keyring.ts";
import type { MachineCatalog } from "../machines/catalog.ts";
import type { MachineRecord } from "../machines/record.ts";
import type { PortAddress } from "./address.ts";
import { takeLinkFromCookie, takeLinkFromQuery, verifyLink } from "./links.ts";

const BEARER = /^bearer +([\x21-\x7e]{1,512})$/i;
/** Whatever has the form of a key of ours is never shown to a program, a revoked one neither. */
const OUR_KEY = /^sp_[A-Za-z0-9_-]{43}$/;

/** A request that may reach a program, without what let it in. */
export interface AdmittedRequest {
  machine: Readonly<MachineRecord>;
  /** Path and query without our link. */
  target: string;
  /** The program's own headers of the two kinds that ours share; null: none is left. */
  authorization: string | null;
  cookie: string | null;
  /** The link stood in the query: its token and end (seconds since 1970). */
  link: { token: string; expiresAt: number } | null;
}

interface Shown {
  identity: Identity | null;
  queryToken: string | null;
  cookieToken: string | null;
}

/**
 * Who may reach a port: the owner's key, a link of that machine and port (in the query, or as a cookie of the host form), or anybody where it is public.
 * @throws `unauthorized` where nothing was shown, `forbidden` where it was not enough, `machine_not_found` with a key of another owner
 */
export function admitPortRequest(
  request: IncomingMessage,
  address: PortAddress,
  { gate, machines }: { gate: Pick<Gate, "identify">; machines: MachineCatalog },
): AdmittedRequest {
  const { identity, authorization } = takeKey(request, gate);
  const { target, token: queryToken } = takeLinkFromQuery(address.target);
  const { cookie, token } = takeLinkFromCookie(request.headers.cookie);
  const cookieToken = address.form === "host" && isOwnOrigin(request) ? token : null;
  const shown = { identity, queryToken, cookieToken };
  const { machine, link } = choose(shown, address, machines);
  return { machine, target, authorization, cookie, link };
}

function takeKey(request: IncomingMessage, gate: Pick<Gate, "identify">) {
  const { authorization = null } = request.headers;
  const secret = BEARER.exec(authorization ?? "")?.[1];
  const identity = secret === undefined ? null : gate.identify(secret);
  const isOurs = identity !== null || (secret !== undefined && OUR_KEY.test(secret));
  return { identity, authorization: isOurs ? null : authorization };
}

/** Another site's page must not act with a cookie that a browser sends along. */
function isOwnOrigin({ headers: { origin, host } }: IncomingMessage): boolean {
  return origin === undefined || origin.toLowerCase().replace(/^https?:\/\//, "") === host?.toLowerCase();
}

function choose(
  shown: Shown,
  address: PortAddress,
  machines: MachineCatalog,
): Pick<AdmittedRequest, "machine" | "link"> {
  const candidates = candidatesOf(address.machine, machines);
  const owned = candidates.find(({ owner }) => owner === shown.identity?.owner);
  if (owned !== undefined) return { machine: owned, link: null };
  for (const token of [shown.queryToken, shown.cookieToken]) {
    if (token === null) continue;
    for (const machine of candidates) {
      const subject = { machineId: machine.id, port: address.port };
      const expiresAt = verifyLink(machines.secretOf(machine), subject, token, Date.now());
      if (expiresAt === null) continue;
      return { machine, link: token === shown.queryToken ? { token, expiresAt } : null };
    }
  }
  const open = candidates.filter((machine) => machines.publicPorts(machine).has(address.port));
  const [machine] = open;
  if (machine !== undefined && open.length === 1) return { machine, link: null };
  throw open.length > 1 ? ambiguous(address) : refused(shown, address);
}

function candidatesOf(idOrName: string, machines: MachineCatalog): Readonly<MachineRecord>[] {
  if (!isMachineId(idOrName)) return machines.recordsByName(idOrName);
  const record = machines.recordById(idOrName);
  return record === null ? [] : [record];
}

/** Says nothing of whether there is such a machine to who has no key. */
function refused({ identity, queryToken, cookieToken }: Shown, { machine, port }: PortAddress): SandpoolError {
  if (identity !== null) {
    return new SandpoolError("machine_not_found", `there is no machine ${JSON.stringify(machine)} of this owner`, {
      hint: "GET /v1/machines lists them",
    });
  }
  if (queryToken !== null || cookieToken !== null) {
    return new SandpoolError("forbidden", `the link is over, was revoked, or is not for port ${port} of ${machine}`, {
      hint: `ask the machine's owner for another: sandpool machine url ${machine} ${port}`,
    });
  }
  return new SandpoolError("unauthorized", `port ${port} of ${machine} needs a key or a link, and neither came`, {
    hint: 'send "Authorization: Bearer <key>", open a link, or make the port public',
  });
}

function ambiguous({ machine, port }: PortAddress): SandpoolError {
  return new SandpoolError("conflict", `several owners have a machine ${machine} whose port ${port} is public`, {
    hint: "use the machine's id instead of its name",
  });
}
