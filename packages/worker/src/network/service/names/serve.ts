import type { Socket as UdpSocket } from "node:dgram";
import { createServer, type Server, type Socket } from "node:net";
import {
  encode,
  type Packet,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  streamEncode,
  TRUNCATED_RESPONSE,
} from "dns-packet";
import type { Clients } from "../clients.ts";
import { limits, OpenCounts, Rates } from "../limits.ts";
import { answerQuery, type NameQuery, type NameReply, readQuery } from "./answer.ts";

/** RCODE values of RFC 1035, which stand in the lowest bits of the flags. */
const rcodes = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const;

/** The name service of all machines, over UDP and TCP. */
export class NameService {
  readonly #clients: Clients;
  readonly #pending = new OpenCounts(limits.namesAtOnce);
  readonly #connections = new OpenCounts(limits.nameConnections);
  readonly #rates = new Rates(limits.namesPerSecond, limits.namesBurst);

  constructor(clients: Clients) {
    this.#clients = clients;
  }

  serveUdp(socket: UdpSocket): void {
    socket.on("message", (bytes, from) => {
      this.#reply(bytes, from.address)
        .then((answered) => {
          if (answered !== null) socket.send(fitUdp(answered.query, answered.reply), from.port, from.address);
        })
        .catch(() => undefined);
    });
    socket.on("error", () => undefined);
  }

  makeTcpServer(): Server {
    return createServer((socket) => {
      const client = socket.remoteAddress ?? "";
      socket.on("error", () => socket.destroy());
      if (this.#clients.get(client) === null || !this.#connections.take(client)) {
        socket.destroy();
        return;
      }
      socket.once("close", () => this.#connections.give(client));
      socket.setTimeout(limits.nameIdleMs, () => socket.destroy());
      this.#serveTcp(socket, client).catch(() => socket.destroy());
    });
  }

  forget(client: string): void {
    this.#rates.forget(client);
  }

  /** One question after the other. */
  async #serveTcp(socket: Socket, client: string): Promise<void> {
    let bytes = Buffer.alloc(0);
    for await (const chunk of socket) {
      bytes = Buffer.concat([bytes, chunk as Buffer]);
      while (bytes.length >= 2 && bytes.length >= 2 + bytes.readUInt16BE(0)) {
        const end = 2 + bytes.readUInt16BE(0);
        const answered = await this.#reply(bytes.subarray(2, end), client);
        if (answered === null) {
          socket.destroy();
          return;
        }
        socket.write(streamEncode(packetOf(answered.query, answered.reply)));
        bytes = bytes.subarray(end);
      }
    }
    socket.end();
  }

  /** Null for what deserves no answer: no machine's, no question, or over the limits. */
  async #reply(bytes: Buffer, address: string): Promise<{ query: NameQuery; reply: NameReply } | null> {
    const client = this.#clients.get(address);
    if (client === null || !this.#rates.take(address, performance.now())) return null;
    const query = readQuery(bytes);
    if (query === null || !this.#pending.take(address)) return null;
    try {
      return { query, reply: await answerQuery(this.#clients, client, query) };
    } finally {
      this.#pending.give(address);
    }
  }
}

function fitUdp(query: NameQuery, reply: NameReply): Buffer {
  const whole = encode(packetOf(query, reply));
  if (whole.length <= query.udpBytes) return whole;
  const cut = packetOf(query, { ...reply, answers: [], authorities: [] });
  return encode({ ...cut, flags: (cut.flags ?? 0) | TRUNCATED_RESPONSE });
}

function packetOf({ id, question }: NameQuery, { rcode, answers, authorities }: NameReply): Packet {
  const flags = RECURSION_DESIRED | RECURSION_AVAILABLE | rcodes[rcode];
  return { type: "response", id, flags, questions: [question], answers, authorities };
}
