import type { PoolReply } from "@sandpool/protocol";
import { type Endpoint, normaliseUrl } from "../http/credentials.ts";
import { findLocalSocket } from "../http/localSocket.ts";

/** Where the batches and the stream of a pool go. */
export interface PoolEndpoint extends Endpoint {
  /** A unix socket that leads to the same server. */
  socketPath: string | null;
}

/** The pool's own endpoint if it has a token of its own, for our key is only for the server's url; else the server. */
export function findPoolEndpoint(server: Endpoint, { endpoint }: PoolReply): PoolEndpoint {
  const own = typeof endpoint?.token === "string" ? { url: normaliseUrl(endpoint.url), key: endpoint.token } : server;
  return { ...own, socketPath: own === server ? findLocalSocket(server, endpoint) : null };
}
