import { execFile } from "node:child_process";
import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { promisify } from "node:util";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { type Answer, decode, encode, RECURSION_AVAILABLE } from "dns-packet";
import { createNetworks } from "../../src/network/networks.ts";

/**
 * A process in a network namespace of its own, told by a test what to do there: a machine, the internet, or the host that the networks
 * are made on. Nothing here touches the network of the machine that runs the tests.
 */

/** What became of an attempt: what the other side said, or why there is no other side. */
export type Attempt = { reached: true; said: string } | { reached: false; why: string };

export interface Actions {
  run(argv: string[]): Promise<string>;
  read(file: string): string;
  /** A server that greets with its name and the address it sees, then echoes. */
  serve(name: string, address: string, port: number): Promise<void>;
  serveTls(name: string, address: string, port: number, key: string, certificate: string): Promise<void>;
  serveDatagrams(name: string, address: string, port: number): Promise<void>;
  /** A name server; of several addresses each answer gives the next one. */
  serveNames(address: string, port: number, records: Record<string, string[]>): Promise<void>;
  askedNames(): string[];
  accepted(): string[];
  tcp(address: string, port: number, send?: string): Promise<Attempt>;
  udp(address: string, port: number): Promise<Attempt>;
  lookUp(server: string, name: string, type?: string): Promise<string[] | string>;
  /** TLS with this server name, to an address or through a proxy's CONNECT. */
  tls(options: TlsAttempt): Promise<Attempt>;
  createNetworks(options: Parameters<typeof createNetworks>[0]): void;
  networks(method: string, ...args: unknown[]): Promise<unknown>;
  warnings(): string[];
}

export interface TlsAttempt {
  address: string;
  port: number;
  serverName: string | null;
  /** The target of a CONNECT that goes before. */
  through?: string;
  /** Sent as it is, in place of a handshake. */
  raw?: string;
}

const ATTEMPT_MS = 2_500;
const asked: string[] = [];
const seen: string[] = [];
const warned: string[] = [];
let networks: ReturnType<typeof createNetworks> | null = null;

const actions: Actions = {
  run: async ([file = "", ...args]) => (await promisify(execFile)(file, args, { maxBuffer: 2 ** 26 })).stdout,
  read: (file) => readFileSync(file, "utf8"),
  serve: async (name, host, port) => {
    const server = createServer((socket) => greet(name, socket));
    server.listen({ host, port });
    await once(server, "listening");
  },
  serveTls: async (name, host, port, key, cert) => {
    const server = createTlsServer({ key, cert }, (socket) => greet(`${name} as ${socket.servername}`, socket));
    server.listen({ host, port });
    await once(server, "listening");
  },
  serveDatagrams: async (name, address, port) => {
    const socket = createSocket("udp4");
    socket.on("message", (_bytes, from) => socket.send(`${name} ${from.address}`, from.port, from.address));
    socket.bind(port, address);
    await once(socket, "listening");
  },
  serveNames,
  askedNames: () => asked,
  accepted: () => seen,
  tcp: (address, port, send) => attemptWith(connect({ host: address, port }), "connect", send ?? ""),
  udp: async (address, port) => {
    const socket = createSocket("udp4");
    socket.connect(port, address);
    await once(socket, "connect");
    socket.send("attempt");
    try {
      const [bytes] = (await once(socket, "message", { signal: AbortSignal.timeout(ATTEMPT_MS) })) as [Buffer];
      return { reached: true, said: bytes.toString() };
    } catch (error) {
      return { reached: false, why: codeOf(error) };
    } finally {
      socket.close();
    }
  },
  lookUp: async (server, name, type = "A") => {
    const resolver = new Resolver({ timeout: 3_000, tries: 1 });
    resolver.setServers([server]);
    try {
      return (await resolver.resolve(name, type)) as string[];
    } catch (error) {
      return codeOf(error);
    }
  },
  tls: async ({ address, port, serverName, through, raw }) => {
    const socket = connect({ host: address, port });
    if (through !== undefined) {
      const opened = await attemptWith(socket, "connect", `CONNECT ${through} HTTP/1.1\r\nHost: ${through}\r\n\r\n`, true);
      if (!opened.reached || !opened.said.startsWith("HTTP/1.1 200")) {
        socket.destroy();
        return { reached: false, why: opened.reached ? opened.said : opened.why };
      }
    }
    if (raw !== undefined) return await attemptWith(socket, through === undefined ? "connect" : null, raw);
    const secure = connectTls({ socket, rejectUnauthorized: false, ...(serverName === null ? {} : { servername: serverName }) });
    return await attemptWith(secure, "secureConnect", "");
  },
  createNetworks: (options) => {
    networks = createNetworks({ ...options, warn: (message) => warned.push(message) });
  },
  networks: async (method, ...args) => {
    if (networks === null) throw new Error("no networks were created");
    const [first, ...rest] = args;
    const given = method === "reconcile" ? [new Set(first as string[])] : [first, ...rest];
    const verbs = networks as unknown as Record<string, (...values: unknown[]) => unknown>;
    return await verbs[method]?.(...given);
  },
  warnings: () => warned,
};

function greet(name: string, socket: Socket): void {
  seen.push(`${name} ${socket.remoteAddress}`);
  socket.on("error", () => socket.destroy());
  socket.write(`${name} ${socket.remoteAddress}\n`);
  socket.on("data", (bytes: Buffer) => socket.write(bytes));
}

/** Connects, sends, and takes the first thing that is said. */
async function attemptWith(socket: Socket, event: string | null, send: string, keep = false): Promise<Attempt> {
  const signal = AbortSignal.timeout(ATTEMPT_MS);
  try {
    if (event !== null) await once(socket, event, { signal });
    if (send !== "") socket.write(send);
    const said = await Promise.race([
      once(socket, "data", { signal }).then(([bytes]) => String(bytes)),
      once(socket, "close", { signal }).then(() => null),
    ]);
    return said === null ? { reached: false, why: "closed" } : { reached: true, said: said.trim() };
  } catch (error) {
    return { reached: false, why: codeOf(error) };
  } finally {
    if (!keep) socket.on("error", () => undefined).destroy();
  }
}

function codeOf(error: unknown): string {
  const { code, name, message } = error as NodeJS.ErrnoException;
  return code ?? `${name}: ${message}`;
}

async function serveNames(address: string, port: number, records: Record<string, string[]>): Promise<void> {
  const socket = createSocket("udp4");
  const turns = new Map<string, number>();
  const answersTo = (name: string): Answer[] => {
    const found = records[name] ?? [];
    const turn = turns.get(name) ?? 0;
    turns.set(name, turn + 1);
    const data = found.length === 0 ? [] : [found[turn % found.length] as string];
    return data.map((value) => ({ type: "A", name, ttl: 0, data: value }));
  };
  socket.on("message", (bytes, from) => {
    const { id, questions = [] } = decode(bytes);
    const name = questions[0]?.name.toLowerCase() ?? "";
    asked.push(`${questions[0]?.type} ${name}`);
    const answers = questions[0]?.type === "A" ? answersTo(name) : [];
    const flags = RECURSION_AVAILABLE | (name in records ? 0 : 3);
    socket.send(encode({ type: "response", id: id ?? 0, flags, questions, answers }), from.port, from.address);
  });
  socket.bind(port, address);
  await once(socket, "listening");
}

process.on("message", ({ call, action, args }: { call: number; action: keyof Actions; args: unknown[] }) => {
  const work = actions[action] as (...values: unknown[]) => unknown;
  Promise.resolve()
    .then(() => work(...args))
    .then(
      (result) => process.send?.({ call, result }),
      (error: Error) => process.send?.({ call, error: error.stack ?? error.message }),
    );
});
process.on("disconnect", () => process.exit(0));
