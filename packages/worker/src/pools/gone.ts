import { fail } from "../fail.ts";

/** Why a pool was closed. */
export type CloseReason = "deleted" | "lease" | "server_stopped";

/** `pool_closed`, with the reason where it is known. */
export function poolGone(id: string, reason: CloseReason | null): Error {
  return fail("pool_closed", `The pool ${id} is closed: ${endings[reason ?? "deleted"]}.`, {
    hint: reason === "lease" ? "Create a new one; a longer lease keeps an idle pool open." : "Create a new one.",
    details: { pool: id, reason },
  });
}

const endings: Record<CloseReason, string> = {
  deleted: "it was deleted",
  lease: "its lease expired",
  server_stopped: "its server was stopped",
};
