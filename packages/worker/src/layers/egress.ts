import { lookup } from "node:dns/promises";
import { constants } from "node:fs";
import { chmod, open, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { isPrivateAddress } from "./addresses.ts";
import type { AllowedHost } from "./allowed-hosts.ts";

/** A proxy on a unix socket that reaches nothing but the allowed hosts. */
export interface EgressProxy {
  socketPath: string;
  /** `host:port (reason)` of what was refused, each once. */
  refused(): string[];
  close(): Promise<void>;
}

interface ProxyTarget {
  host: string;
  port: number;
  /** For plain http: the request head rewritten for the server itself. Null for CONNECT. */
  forwardHead: string | null;
}

const headLimitBytes = 16 * 1024;
const idleTimeoutMs = 120_000;

/**
 * Starts the proxy on `folder/proxy.sock`: CONNECT for https, absolute addresses for http hosts. It resolves names itself and dials the
 * address it checked.
 */
export async function startEgressProxy(
  folder: string,
  allowed: readonly AllowedHost[],
  limitBytes: number,
): Promise<EgressProxy> {
  const refused = new Set<string>();
  const sockets = new Set<Socket>();
  let receivedBytes = 0;
  const track = (socket: Socket): void => {
    sockets.add(socket);
    socket.setTimeout(idleTimeoutMs, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.on("close", () => sockets.delete(socket));
  };
  const serve = async (client: Socket): Promise<void> => {
    const { head, rest } = await readHead(client);
    const target = parseTarget(head);
    if (target === null)
      return refuse(client, "400 Bad Request", "only CONNECT and absolute http addresses are served");
    const verdict = await checkTarget(target, allowed);
    if ("reason" in verdict) {
      refused.add(`${target.host.slice(0, 200)}:${target.port} (${verdict.reason})`);
      return refuse(client, "403 Forbidden", verdict.reason);
    }
    const server = connect({ host: verdict.address, port: target.port });
    track(server);
    server.on("data", (chunk: Buffer) => {
      receivedBytes += chunk.length;
      if (receivedBytes <= limitBytes) return;
      refused.add(`everything (over ${limitBytes} bytes were downloaded)`);
      for (const socket of sockets) socket.destroy();
    });
    server.once("connect", () => {
      if (target.forwardHead === null) client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      else server.write(target.forwardHead);
      if (rest.length > 0) server.write(rest);
      client.pipe(server);
      server.pipe(client);
    });
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
  };
  const server = createServer((client) => {
    track(client);
    serve(client).catch(() => client.destroy());
  });
  const socketPath = join(folder, "proxy.sock");
  await listenIn(server, folder);
  // The sandbox's user is another one than ours; the folder above keeps everybody else out.
  await chmod(socketPath, 0o666);
  return {
    socketPath,
    refused: () => [...refused],
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      await rm(socketPath, { force: true });
    },
  };
}

function readHead(client: Socket): Promise<{ head: string; rest: Buffer }> {
  return new Promise((resolve, reject) => {
    let read = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      read = Buffer.concat([read, chunk]);
      const end = read.indexOf("\r\n\r\n");
      if (end === -1 && read.length <= headLimitBytes) return;
      client.off("data", onData);
      client.pause();
      if (end === -1) reject(new Error("request head too long"));
      else resolve({ head: read.toString("latin1", 0, end), rest: read.subarray(end + 4) });
    };
    client.on("data", onData);
    client.once("close", () => reject(new Error("closed before a request")));
  });
}

function parseTarget(head: string): ProxyTarget | null {
  const [first = "", ...headers] = head.split("\r\n");
  const tunnel = /^CONNECT (?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5}) HTTP\/1\.[01]$/.exec(first);
  if (tunnel !== null)
    return { host: (tunnel[1] ?? tunnel[2] ?? "").toLowerCase(), port: Number(tunnel[3]), forwardHead: null };
  const plain = /^(GET|HEAD) (http:\/\/\S+) HTTP\/1\.[01]$/.exec(first);
  const url = URL.parse(plain?.[2] ?? "");
  if (plain === null || url === null) return null;
  // One request a connection: a second one could name a host that was not checked.
  const kept = headers.filter((header) => !/^(?:connection|proxy-[a-z-]+|host)\s*:/i.test(header));
  const forwardHead = [
    `${plain[1]} ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    ...kept,
    "Connection: close",
    "",
    "",
  ].join("\r\n");
  const host = url.hostname.replace(/^\[|\]$/g, "").toLowerCase();
  return { host, port: url.port === "" ? 80 : Number(url.port), forwardHead };
}

async function checkTarget(
  target: ProxyTarget,
  allowed: readonly AllowedHost[],
): Promise<{ address: string } | { reason: string }> {
  const scheme = target.forwardHead === null ? "https" : "http";
  const entry = allowed.find(
    (host) => host.host === target.host && host.port === target.port && host.scheme === scheme,
  );
  if (entry === undefined) return { reason: "not a host of the package index" };
  const answers = await lookup(target.host, { all: true }).catch(() => []);
  if (answers.length === 0) return { reason: "the name does not resolve" };
  const usable = answers.find((answer) => entry.privateAddresses || !isPrivateAddress(answer.address));
  return usable === undefined ? { reason: "it resolves to a private address" } : { address: usable.address };
}

function refuse(client: Socket, status: string, reason: string): void {
  const body = `Sandpool's egress proxy: ${reason}\n`;
  client.end(
    `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** A socket's address has 107 bytes at most, a data folder's path may have more: the folder's descriptor makes it short. */
async function listenIn(server: Server, folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  server.once("close", () => void handle.close());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(`/proc/self/fd/${handle.fd}/proxy.sock`, () => resolve());
  });
}
