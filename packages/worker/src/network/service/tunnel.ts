import type { Socket } from "node:net";
import { type NormalHost, normalizeHost } from "../policy/hosts.ts";
import type { Client, Clients } from "./clients.ts";
import { dialAllowed } from "./dial.ts";
import { type FirstBytes, readClientHello } from "./hello.ts";
import { limits } from "./limits.ts";

/**
 * Serves a tunnel that CONNECT opened: its TLS has to name the host that was asked for. Towards 443 it is TLS and the machine speaks first;
 * on another port the server may, and what is no TLS passes.
 *
 * @param head what came with the request
 */
export async function serveTunnel(
  socket: Socket,
  server: Socket,
  head: Buffer,
  host: NormalHost,
  port: number,
): Promise<void> {
  if (port !== 443) server.on("data", forward);
  const first = await readFirst(socket, head, port === 443 ? limits.helloMs : limits.idleMs);
  server.off("data", forward);
  if (socket.destroyed || server.destroyed) return;
  if (!fits(first.found, host, port)) {
    refuseTls(socket);
    server.destroy();
    return;
  }
  join(socket, server, first.bytes);

  function forward(chunk: Buffer): void {
    if (socket.write(chunk)) return;
    server.pause();
    socket.once("drain", () => server.resume());
  }
}

/** Serves a connection to port 443 that was led here: its ClientHello says where it wants to go. */
export async function serveTls(clients: Clients, client: Client, socket: Socket): Promise<void> {
  const { found, bytes } = await readFirst(socket, Buffer.alloc(0), limits.helloMs);
  const host = found.kind === "hello" && !found.encrypted ? normalizeHost(found.serverName ?? "") : null;
  if (host === null || host.kind === "address") return refuseTls(socket);
  try {
    join(socket, await dialAllowed(clients, client, host, 443), bytes);
  } catch {
    refuseTls(socket);
  }
}

/** A name needs its own server name in clear; an address none, or itself. */
function fits(found: FirstBytes, host: NormalHost, port: number): boolean {
  if (found.kind === "other") return port !== 443 || host.kind === "address";
  if (found.kind !== "hello" || found.encrypted) return false;
  if (found.serverName === null) return host.kind === "address";
  return isSameHost(normalizeHost(found.serverName), host);
}

function isSameHost(one: NormalHost | null, other: NormalHost): boolean {
  return one !== null && JSON.stringify(one) === JSON.stringify(other);
}

function readFirst(socket: Socket, head: Buffer, limitMs: number): Promise<{ found: FirstBytes; bytes: Buffer }> {
  return new Promise((resolve) => {
    let bytes = head;
    const timer = setTimeout(() => socket.destroy(), limitMs);
    const done = (found: FirstBytes): void => {
      clearTimeout(timer);
      socket.off("data", take).off("end", end).off("close", end);
      socket.pause();
      resolve({ found, bytes });
    };
    const look = (): void => {
      const found = readClientHello(bytes);
      if (found.kind !== "more") done(found);
      else if (bytes.length > limits.helloBytes) done({ kind: "broken" });
    };
    const take = (chunk: Buffer): void => {
      bytes = Buffer.concat([bytes, chunk]);
      look();
    };
    const end = (): void => done({ kind: "broken" });
    socket.on("data", take).on("end", end).on("close", end);
    look();
  });
}

/** Alert 49, access denied: the program inside gets a TLS error at once, and says which. */
function refuseTls(socket: Socket): void {
  socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 49]));
}

/** Both ways until both ends have ended, or nothing passed for long. */
export function join(socket: Socket, server: Socket, first: Buffer): void {
  for (const end of [socket, server]) end.setTimeout(limits.idleMs, () => end.destroy());
  if (first.length > 0) server.write(first);
  socket.pipe(server);
  server.pipe(socket);
  socket.on("close", () => server.destroy());
  server.on("close", () => socket.destroy());
}
