import type { IncomingMessage } from "node:http";
import type { PoolReply } from "@sandpool/protocol";

export type PoolEndpoint = NonNullable<PoolReply["endpoint"]>;

export interface EndpointContext {
  scheme: "http" | "https";
  /** The unix socket of this host's clients; null without one. */
  socketPath: () => string | null;
}

/** Where a pool's batches go: the server's address as the caller reached it (its Host header has passed the exact list), and the socket. */
export function endpointOf(request: IncomingMessage, { scheme, socketPath }: EndpointContext): PoolEndpoint {
  const socket = socketPath();
  return { url: `${scheme}://${request.headers.host}`, ...(socket === null ? {} : { socket }) };
}
