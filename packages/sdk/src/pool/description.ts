import type { PoolReply } from "@sandpool/protocol";
import { SandpoolError } from "../errors.ts";

/** Checks the members of a pool's description this client depends on; the rest is the server's to extend. */
export function readDescription(value: unknown): PoolReply {
  const pool = value as Partial<PoolReply> | null;
  const layout = pool?.layout as PoolReply["layout"] | undefined;
  const usable =
    typeof pool?.id === "string" &&
    Number.isSafeInteger(pool.n) &&
    Number.isSafeInteger(pool.next_seq) &&
    typeof pool.lease?.seconds === "number" &&
    (layout?.kind === "list" || (layout?.kind === "array" && Array.isArray(layout.fields)));
  if (usable) return pool as PoolReply;
  throw new SandpoolError(
    "protocol_violation",
    "The server described a pool without id, n, next_seq, lease or layout.",
    {
      hint: "Update the client and the server to the same version.",
    },
  );
}
