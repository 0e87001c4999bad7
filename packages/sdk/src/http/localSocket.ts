import { statSync } from "node:fs";
import type { PoolReply } from "@sandpool/protocol";
import type { Endpoint } from "./credentials.ts";

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * The unix socket in a pool's endpoint, over which a round trip costs half of one over loopback TCP; null unless the server
 * itself is reached over plain HTTP on loopback and the socket is ours or root's.
 *
 * A proxy on the way is never passed by: behind one the endpoint's url is another than ours. And the socket's name is new at
 * each start of a server, so a server behind a forwarded port never names a socket of this host.
 */
export function findLocalSocket(server: Endpoint, endpoint: PoolReply["endpoint"]): string | null {
  const { protocol, hostname } = new URL(server.url);
  const path = endpoint?.socket;
  if (typeof path !== "string" || protocol !== "http:" || !LOOPBACK.has(hostname)) return null;
  if (endpoint?.url.replace(/\/+$/, "") !== server.url) return null;
  try {
    const status = statSync(path);
    return status.isSocket() && [0, process.geteuid?.()].includes(status.uid) ? path : null;
  } catch {
    return null;
  }
}
