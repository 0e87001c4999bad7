import type { BatchOperation } from "../metrics.ts";

const PREFIX = "/v1/pools/";

/** A request of the step path, recognised without a router; null sends it to the ordinary routes. */
export function matchBatch(method: string, url: string): { operation: BatchOperation; idOrName: string } | null {
  if (!url.startsWith(PREFIX)) return null;
  const slash = url.indexOf("/", PREFIX.length);
  if (slash === -1) return null;
  const idOrName = url.slice(PREFIX.length, slash);
  if (!/^[a-z0-9_-]+$/.test(idOrName)) return null;
  switch (url.slice(slash + 1)) {
    case "step":
      return method === "POST" ? { operation: "step", idOrName } : null;
    case "reset":
      return method === "POST" ? { operation: "reset", idOrName } : null;
    case "call":
      return method === "POST" ? { operation: "call", idOrName } : null;
    case "fork":
      return method === "POST" ? { operation: "fork", idOrName } : null;
    case "states":
      return method === "POST" ? { operation: "save", idOrName } : null;
    case "restore":
      return method === "POST" ? { operation: "restore", idOrName } : null;
    case "observations":
      return method === "GET" ? { operation: "observations", idOrName } : null;
    default:
      return null;
  }
}
