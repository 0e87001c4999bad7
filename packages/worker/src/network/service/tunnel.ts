import type { Socket } from "node:net";
import { type NormalHost, normalizeHost } from "../policy/hosts.ts";
import type { Client, Clients } from "./clients.ts";
import { dialAllowed } from "./dial.ts";
import { type FirstBytes, readClientHello } from "./hello.ts";
import { limits } from "./limits.ts";

/**
 * Serves a tunnel that CONNECT opened: what it begins with has to fit the host that was asked for. Towards 443 and 80 the machine speaks
 * first; on another port the server may, and what is no TLS passes.
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
  const isKnown = port === 443 || port === 80;
  if (!isKnown) server.on("data", forward);
  const limitMs = isKnown ? limits.helloMs : limits.idleMs;
  const first = await readFirst(socket, head, port === 80 ? readHttpHost : readClientHello, limitMs);
  server.off("data", forward);
  if (socket.destroyed || server.destroyed) return;
  const fits = port === 80 ? fitsHttp(first.found, host) : fitsTls(first.found, host, port);
  if (!fits) {
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
  const { found, bytes } = await readFirst(socket, Buffer.alloc(0), readClientHello, limits.helloMs);
  const host = found.kind === "hello" && !found.encrypted ? normalizeHost(found.serverName ?? "") : null;
  if (host === null || host.kind === "address") return refuseTls(socket);
  try {
    join(socket, await dialAllowed(clients, client, host, 443), bytes);
  } catch {
    refuseTls(socket);
  }
}

type Found = FirstBytes | { kind: "host"; host: string };

/** A name needs its own server name in clear; an address none, or itself. */
function fitsTls(found: Found, host: NormalHost, port: number): boolean {
  if (found.kind === "other") return port !== 443 || host.kind === "address";
  if (found.kind !== "hello" || found.encrypted) return false;
  if (found.serverName === null) return host.kind === "address";
  return isSameHost(normalizeHost(found.serverName), host);
}

function fitsHttp(found: Found, host: NormalHost): boolean {
  if (found.kind !== "host") return false;
  return isSameHost(normalizeHost(found.host.replace(/:80$/, "")), host);
}

function isSameHost(one: NormalHost | null, other: NormalHost): boolean {
  return one !== null && JSON.stringify(one) === JSON.stringify(other);
}

/** The Host of an HTTP/1 request's head; a connection that begins otherwise is broken. */
function readHttpHost(bytes: Buffer): Found {
  const text = bytes.toString("latin1");
  const end = text.indexOf("\r\n\r\n");
  if (end === -1) return { kind: /^[A-Z]{0,16}(?: |$)/.test(text) ? "more" : "broken" };
  const hosts = [...text.slice(0, end + 2).matchAll(/\r\nhost:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)/gi)];
  const [only] = hosts;
  return hosts.length === 1 && only !== undefined ? { kind: "host", host: only[1] as string } : { kind: "broken" };
}

function readFirst(
  socket: Socket,
  head: Buffer,
  read: (bytes: Buffer) => Found,
  limitMs: number,
): Promise<{ found: Found; bytes: Buffer }> {
  return new Promise((resolve) => {
    let bytes = head;
    const timer = setTimeout(() => socket.destroy(), limitMs);
    const done = (found: Found): void => {
      clearTimeout(timer);
      socket.off("data", take).off("end", end).off("close", end);
      socket.pause();
      resolve({ found, bytes });
    };
    const look = (): void => {
      const found = read(bytes);
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

function join(socket: Socket, server: Socket, first: Buffer): void {
  for (const end of [socket, server]) end.setTimeout(limits.idleMs, () => end.destroy());
  if (first.length > 0) server.write(first);
  socket.pipe(server);
  server.pipe(socket);
  socket.on("close", () => server.destroy());
  server.on("close", () => socket.destroy());
}
