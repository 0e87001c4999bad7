import { type Answer, decode, type Packet, type Question } from "dns-packet";
import { isPrivateAddress } from "../../../layers/addresses.ts";
import { allowsHost, normalizeHost } from "../../policy/hosts.ts";
import type { Client, Clients } from "../clients.ts";
import { askUpstreams } from "./upstream.ts";

/** A machine's question, as it came. */
export interface NameQuery {
  id: number;
  question: Question;
  /** The largest answer over UDP. */
  udpBytes: number;
}

export interface NameReply {
  rcode: "NOERROR" | "SERVFAIL" | "NXDOMAIN" | "NOTIMP" | "REFUSED";
  answers: Answer[];
  authorities: Answer[];
}

/** What is passed on. Everything else is answered here. */
const passedTypes = new Set<string>("A CAA CNAME DNAME MX NAPTR NS PTR SOA SRV SSHFP TLSA TXT".split(" "));
/** Machines have no IPv6, and no way to hide a server's name (HTTPS and SVCB records carry its key): such a name has none. */
const emptyTypes = new Set<string>(["AAAA", "UNKNOWN_64", "UNKNOWN_65"]);
const mostAnswers = 100;
const mostUdpBytes = 1232;
const leastUdpBytes = 512;

/** Null for what is no question. */
export function readQuery(bytes: Buffer): NameQuery | null {
  let packet: Packet;
  try {
    packet = decode(bytes);
  } catch {
    return null;
  }
  const [question] = packet.questions ?? [];
  if (packet.type !== "query" || packet.questions?.length !== 1 || question === undefined) return null;
  const options = packet.additionals?.find((extra) => extra.type === "OPT");
  const offered = options?.type === "OPT" ? options.udpPayloadSize : 0;
  const udpBytes = Math.max(leastUdpBytes, Math.min(mostUdpBytes, offered));
  return { id: packet.id ?? 0, question, udpBytes };
}

/** Answers a machine's question: from the host's name servers, without what leads where machines never come. */
export async function answerQuery(clients: Clients, client: Client, { question }: NameQuery): Promise<NameReply> {
  const host = normalizeHost(question.name);
  if (host === null || host.kind === "address" || (question.class ?? "IN") !== "IN") return bare("NXDOMAIN");
  const isListed = client.egress === null || allowsHost(client.egress, host, null);
  if (!isListed) return bare("REFUSED");
  if (emptyTypes.has(question.type)) return bare("NOERROR");
  // With a list, all that a name can be used for is its address: no other record carries words in or out.
  if (!passedTypes.has(question.type) || (client.egress !== null && question.type !== "A")) return bare("NOTIMP");
  if (asksForPrivate(host.name)) return bare("NXDOMAIN");
  const reply = await askUpstreams(clients.upstreams, { type: question.type, name: host.name, class: "IN" });
  return reply === null ? bare("SERVFAIL") : filter(clients, reply);
}

function filter(clients: Clients, packet: Packet): NameReply {
  const rcode = (packet as { rcode?: unknown }).rcode;
  const isKept = (record: Answer): boolean => {
    if (record.type === "A") return clients.isReachable(String(record.data), null);
    return passedTypes.has(record.type);
  };
  return {
    rcode: rcode === "NOERROR" || rcode === "NXDOMAIN" ? rcode : "SERVFAIL",
    answers: (packet.answers ?? []).slice(0, mostAnswers).filter(isKept),
    // Of a name that is not there, how long that holds.
    authorities: (packet.authorities ?? []).filter(({ type }) => type === "SOA").slice(0, 1),
  };
}

function bare(rcode: NameReply["rcode"]): NameReply {
  return { rcode, answers: [], authorities: [] };
}

/** Names of private addresses tell of the host's own network. */
function asksForPrivate(name: string): boolean {
  const found = /^(\d+)\.(\d+)\.(\d+)\.(\d+)\.in-addr\.arpa$/.exec(name);
  return found !== null && isPrivateAddress(found.slice(1).reverse().join("."));
}
