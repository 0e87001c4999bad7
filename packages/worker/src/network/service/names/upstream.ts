import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import {
  decode,
  encode,
  type Packet,
  type Question,
  RECURSION_DESIRED,
  streamEncode,
  TRUNCATED_RESPONSE,
} from "dns-packet";
import type { Upstream } from "../clients.ts";

const UDP_MS = 2_000;
const TCP_MS = 5_000;
const rounds = 2;
const udpBytes = 1232;

/** Asks the host's name servers in turn; null when none answers. */
export async function askUpstreams(upstreams: readonly Upstream[], question: Question): Promise<Packet | null> {
  for (let round = 0; round < rounds; round += 1) {
    for (const upstream of upstreams) {
      const query: Packet = {
        type: "query",
        id: randomInt(65_536),
        flags: RECURSION_DESIRED,
        questions: [question],
        additionals: [
          {
            type: "OPT",
            name: ".",
            udpPayloadSize: udpBytes,
            extendedRcode: 0,
            ednsVersion: 0,
            flags: 0,
            flag_do: false,
            options: [],
          },
        ],
      };
      const reply = await askOverUdp(upstream, query);
      if (reply === null) continue;
      if (((reply.flags ?? 0) & TRUNCATED_RESPONSE) === 0) return reply;
      const whole = await askOverTcp(upstream, query);
      if (whole !== null) return whole;
    }
  }
  return null;
}

/** A socket of its own for each question: its port is as hard to guess as its id, and nobody but the server is heard on it. */
function askOverUdp({ address, port }: Upstream, query: Packet): Promise<Packet | null> {
  return new Promise((resolve) => {
    const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
    const done = (reply: Packet | null): void => {
      clearTimeout(timer);
      socket.close();
      resolve(reply);
    };
    const timer = setTimeout(() => done(null), UDP_MS);
    socket.once("error", () => done(null));
    socket.on("message", (bytes) => {
      const reply = readReply(bytes, query);
      if (reply !== null) done(reply);
    });
    socket.connect(port, address, () => socket.send(encode(query)));
  });
}

function askOverTcp({ address, port }: Upstream, query: Packet): Promise<Packet | null> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    let bytes = Buffer.alloc(0);
    const done = (reply: Packet | null): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reply);
    };
    const timer = setTimeout(() => done(null), TCP_MS);
    socket.once("error", () => done(null));
    socket.once("close", () => done(null));
    socket.once("connect", () => socket.write(streamEncode(query)));
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (bytes.length < 2 || bytes.length < 2 + bytes.readUInt16BE(0)) return;
      done(readReply(bytes.subarray(2, 2 + bytes.readUInt16BE(0)), query));
    });
  });
}

function readReply(bytes: Buffer, query: Packet): Packet | null {
  try {
    const reply = decode(bytes);
    const [asked] = query.questions ?? [];
    const [answered] = reply.questions ?? [];
    const isOurs = reply.type === "response" && reply.id === query.id && reply.questions?.length === 1;
    return isOurs && answered?.type === asked?.type && answered?.name.toLowerCase() === asked?.name ? reply : null;
  } catch {
    return null;
  }
}
