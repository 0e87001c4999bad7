import type { SandpoolError } from "@sandpool/protocol";
import { fail } from "../../fail.ts";

/** The number is used up, so the client has to hear of it; the cause goes up, to the log. */
export function ownFault(): SandpoolError {
  return fail("internal", "The server met a fault of its own with this message; its log says which.");
}

/** For a session that finds another one with a connection or with rows out. */
export function taken(out: number): Error {
  return fail("pool_busy", `Another session has this pool's stream, with ${out} rows out.`, {
    hint: "One session at a time: wait until the other one is disconnected and its rows are finished.",
    details: { out },
  });
}

/** For the connection that a later one of its session replaces. */
export function takenOver(): SandpoolError {
  return fail("pool_busy", "The session was opened on another connection, which takes its place.", {
    hint: "Give each client a session name of its own.",
  });
}

/** For a session that says it has results, and which is not there. */
export function forgotten(received: number): Error {
  return fail(
    "pool_busy",
    `The session is not there any more: another took its place, or it never had ${received} results.`,
    {
      hint: "Open a session with a new name; reset the rows whose results are missing.",
      details: { received },
    },
  );
}

/** For a session that comes back in another form. */
export function otherEncoding(): Error {
  return fail("invalid_request", "The session was opened with the other subprotocol; its results keep their form.", {
    hint: "Open it again with the same subprotocol, or open one with a new name.",
  });
}
