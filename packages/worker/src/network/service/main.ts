import { createSocket } from "node:dgram";
import { readFileSync, unlinkSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { Clients } from "./clients.ts";
import { makeControl } from "./control.ts";
import { admit, makeHttpProxy } from "./http.ts";
import { limits, OpenCounts } from "./limits.ts";
import { NameService } from "./names/serve.ts";
import { serveTls } from "./tunnel.ts";

/** The program's only argument, as JSON. */
export interface ServiceSettings {
  address: string;
  ports: { names: number; proxy: number; http: number; tls: number };
  control: string;
  uid: number;
  /** Machines' interfaces begin with it. */
  machinePrefix: string;
}

const LOOK_MS = 2_000;

/**
 * The name service and egress proxy of one server's machines: a process of its own, with no store, no key and no right. It takes its
 * ports as root, then becomes a user that nothing else has. It outlives the server, and ends when nobody and no machine needs it.
 */
async function main(settings: ServiceSettings): Promise<void> {
  const { address, ports } = settings;
  const clients = new Clients();
  const names = new NameService(clients);
  const counts = new OpenCounts(limits.connections);
  const sockets = trackSockets();
  clients.onForget = (client): void => {
    names.forget(client);
    sockets.endOf(client);
  };
  const udp = createSocket("udp4");
  await new Promise<void>((resolve, reject) => {
    udp.once("error", reject).bind(ports.names, address, resolve);
  });
  udp.removeAllListeners("error");
  names.serveUdp(udp);
  const control = makeControl(clients, () => process.exit(0));
  const tls = createServer({ allowHalfOpen: true }, (socket) => {
    const client = admit(clients, counts, socket);
    if (client !== null) serveTls(clients, client, socket).catch(() => socket.destroy());
  });
  const servers: [Server, number][] = [
    [names.makeTcpServer(), ports.names],
    [makeHttpProxy(clients, counts), ports.proxy],
    [makeHttpProxy(clients, counts), ports.http],
    [tls, ports.tls],
  ];
  for (const [server, port] of servers) {
    server.on("connection", sockets.add);
    await listen(server, { host: address, port });
  }
  await replace(settings.control);
  const mask = process.umask(0o177);
  await listen(control.server, { path: settings.control });
  process.umask(mask);
  dropRights(settings.uid);
  setInterval(() => {
    if (!control.isHeld() && !hasMachines(settings.machinePrefix)) process.exit(0);
  }, LOOK_MS);
}

function listen(server: Server, where: { host: string; port: number } | { path: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(where, () => {
      server.removeListener("error", reject).on("error", () => undefined);
      resolve();
    });
  });
}

async function replace(path: string): Promise<void> {
  try {
    unlinkSync(path);
  } catch {
    // There was none.
  }
}

/** From here on it can open no low port, no file of anybody's, and become nobody else: `no_new_privs` was set before. */
function dropRights(uid: number): void {
  process.setgroups?.([]);
  process.setgid?.(uid);
  process.setuid?.(uid);
  if (process.getuid?.() !== uid || process.geteuid?.() !== uid)
    throw new Error(`the service could not become user ${uid}`);
}

function trackSockets(): { add(socket: Socket): void; endOf(client: string): void } {
  const open = new Map<string, Set<Socket>>();
  return {
    add: (socket): void => {
      const client = socket.remoteAddress ?? "";
      const found = open.get(client) ?? new Set();
      open.set(client, found.add(socket));
      socket.once("close", () => {
        found.delete(socket);
        if (found.size === 0 && open.get(client) === found) open.delete(client);
      });
    },
    endOf: (client): void => {
      for (const socket of open.get(client) ?? []) socket.destroy();
    },
  };
}

function hasMachines(prefix: string): boolean {
  return readFileSync("/proc/self/net/dev", "latin1")
    .split("\n")
    .some((line) => line.trimStart().startsWith(prefix));
}

process.on("SIGTERM", () => process.exit(0));
// A hangup of the terminal that the server was started from.
process.on("SIGHUP", () => undefined);
process.on("SIGINT", () => undefined);
await main(JSON.parse(process.argv[2] ?? "") as ServiceSettings);
