import { type SandpoolError, STREAM_CLOSE_CODES } from "@sandpool/protocol";

/** The WebSocket close code of an error that ends a connection. */
export function closeCodeOf({ code, details }: SandpoolError): number {
  switch (code) {
    case "pool_not_found":
      return STREAM_CLOSE_CODES.poolUnknown;
    case "pool_closed":
    case "pool_lost":
      return details.reason === "server_stopped" ? STREAM_CLOSE_CODES.serverStops : STREAM_CLOSE_CODES.poolEnded;
    case "server_closing":
      return STREAM_CLOSE_CODES.serverStops;
    case "pool_busy":
      return STREAM_CLOSE_CODES.taken;
    case "unauthorized":
      return STREAM_CLOSE_CODES.keyRevoked;
    case "request_timeout":
      return STREAM_CLOSE_CODES.tooSlow;
    case "internal":
    case "agent_failed":
      return STREAM_CLOSE_CODES.internal;
    default:
      return STREAM_CLOSE_CODES.brokenContract;
  }
}
