import { execFile } from "node:child_process";
import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { promisify } from "node:util";
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
  /** Answers with its name, the method, the path, the Host and the bytes that it received. */
  serveHttp(name: string, address: string, port: number): Promise<void>;
  serveDatagrams(name: string, address: string, port: number): Promise<void>;
  /** A name server; of several addresses each answer gives the next one, but of a name with `all-` all. */
  serveNames(address: string, port: number, records: Record<string, string[]>): Promise<void>;
  askedNames(): string[];
  accepted(): string[];
  tcp(address: string, port: number, options?: { from?: string; fromPort?: number; waitMs?: number }): Promise<Attempt>;
  udp(address: string, port: number, options?: { waitMs?: number }): Promise<Attempt>;
  lookUp(server: string, name: string, type?: string): Promise<string[] | string>;
  /** Sends bytes of base64, and takes all that is said until the other side ends; `end`: this one ends first. */
  talk(address: string, port: number, base64: string, options?: { end: boolean }): Promise<string>;
  /** Latin-1 texts, each a datagram that nothing is waited for. */
  sendDatagrams(address: string, port: number, texts: string[]): Promise<void>;
  /** A datagram to each of so many ports. */
  sendTo(address: string, firstPort: number, count: number): Promise<void>;
  /** Opens connections and keeps them. */
  openMany(address: string, port: number, count: number): Promise<void>;
  /** How many of them are open yet. */
  openCount(): number;
  abstractListen(name: string): Promise<void>;
  abstract(name: string): Promise<Attempt>;
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
  /** Base64 of what is sent in place of a handshake. */
  raw?: string;
}

/** What an attempt takes at most that has to succeed. */
const ATTEMPT_MS = 15_000;
const asked: string[] = [];
const seen: string[] = [];
const warned: string[] = [];
const held: Socket[] = [];
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
    const secure = createTlsServer({ key, cert }, (socket) => greet(`${name} as ${socket.servername}`, socket));
    secure.on("tlsClientError", () => undefined);
    // Whatever is said counts, a broken handshake too.
    const server = createServer((socket) => {
      socket.on("error", () => socket.destroy());
      socket.once("data", (bytes: Buffer) => {
        seen.push(`${name} bytes`);
        socket.pause();
        socket.unshift(bytes);
        secure.emit("connection", socket);
      });
    });
    server.listen({ host, port });
    await once(server, "listening");
  },
  serveHttp: async (name, host, port) => {
    const server = createHttpServer(async (request, reply) => {
      seen.push(`${name} ${request.url}`);
      let bytes = 0;
      for await (const chunk of request) bytes += (chunk as Buffer).length;
      reply.end(`${name} ${request.method} ${request.url} ${request.headers.host}${bytes > 0 ? ` ${bytes}` : ""}`);
    });
    server.on("upgrade", (request, socket: Socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
      socket.write(`${name} upgraded for ${request.headers.host}`);
    });
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
  tcp: (host, port, { from, fromPort, waitMs } = {}) => {
    const socket = connect({
      host,
      port,
      ...(from === undefined ? {} : { localAddress: from }),
      ...(fromPort === undefined ? {} : { localPort: fromPort }),
    });
    return attemptWith(socket, "connect", "", { ...(waitMs === undefined ? {} : { waitMs }) });
  },
  talk: async (host, port, base64, { end } = { end: false }) => {
    const socket = connect({ host, port }).on("error", () => undefined);
    socket.setTimeout(ATTEMPT_MS, () => socket.destroy());
    const chunks: Buffer[] = [];
    socket.on("data", (bytes: Buffer) => chunks.push(bytes));
    socket.write(Buffer.from(base64, "base64"));
    if (end) socket.end();
    await once(socket, "close");
    return Buffer.concat(chunks).toString("latin1");
  },
  sendDatagrams: async (address, port, texts) => {
    const socket = createSocket("udp4");
    for (const text of texts) {
      await new Promise((resolve) => socket.send(Buffer.from(text, "latin1"), port, address, resolve));
    }
    socket.close();
  },
  sendTo: async (address, first, count) => {
    const socket = createSocket("udp4");
    for (let port = first; port < first + count; port += 1) {
      await new Promise((resolve) => socket.send("x", port, address, resolve));
    }
    socket.close();
  },
  openMany: async (host, port, count) => {
    const sockets = await Promise.all(
      Array.from({ length: count }, async () => {
        const socket = connect({ host, port }).on("error", () => undefined);
        await once(socket, "connect").catch(() => undefined);
        return socket.resume();
      }),
    );
    held.push(...sockets);
  },
  openCount: () => held.filter((socket) => !socket.destroyed).length,
  abstractListen: async (name) => {
    const server = createServer((socket) => socket.end("host"));
    server.listen(`\0${name}`);
    await once(server, "listening");
  },
  abstract: (name) => attemptWith(connect({ path: `\0${name}` }), "connect", ""),
  udp: async (address, port, { waitMs = ATTEMPT_MS } = {}) => {
    const socket = createSocket("udp4");
    socket.connect(port, address);
    await once(socket, "connect");
    socket.send("attempt");
    try {
      const [bytes] = (await once(socket, "message", { signal: AbortSignal.timeout(waitMs) })) as [Buffer];
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
      const opened = await attemptWith(socket, "connect", `CONNECT ${through} HTTP/1.1\r\nHost: ${through}\r\n\r\n`, {
        keep: true,
      });
      if (!opened.reached || !opened.said.startsWith("HTTP/1.1 200")) {
        socket.destroy();
        return { reached: false, why: opened.reached ? opened.said : opened.why };
      }
    }
    if (raw !== undefined) {
      return await attemptWith(socket, through === undefined ? "connect" : null, Buffer.from(raw, "base64"));
    }
    const secure = connectTls({
      socket,
      rejectUnauthorized: false,
      ...(serverName === null ? {} : { servername: serverName }),
    });
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
async function attemptWith(
  socket: Socket,
  event: string | null,
  send: string | Buffer,
  { keep = false, waitMs = ATTEMPT_MS }: { keep?: boolean; waitMs?: number } = {},
): Promise<Attempt> {
  const signal = AbortSignal.timeout(waitMs);
  try {
    if (event !== null) await once(socket, event, { signal });
    if (send.length > 0) socket.write(send);
    socket.resume();
    const said = await Promise.race([
      once(socket, "data", { signal }).then(([bytes]) => (keep ? untilHead(socket, bytes) : String(bytes))),
      once(socket, "close", { signal }).then(() => null),
    ]);
    return said === null ? { reached: false, why: "closed" } : { reached: true, said: said.trim() };
  } catch (error) {
    return { reached: false, why: codeOf(error) };
  } finally {
    if (!keep) socket.on("error", () => undefined).destroy();
  }
}

/** A reply's head; what came with it is read again. */
function untilHead(socket: Socket, bytes: Buffer): string {
  socket.pause();
  const end = bytes.indexOf("\r\n\r\n") + 4;
  if (bytes.length > end) socket.unshift(bytes.subarray(end));
  return bytes.toString();
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
    const data = found.length === 0 || name.startsWith("all-") ? found : [found[turn % found.length] as string];
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
