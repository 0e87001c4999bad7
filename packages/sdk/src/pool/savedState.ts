import type { SavedState as WireState } from "@sandpool/protocol";
import { ArgumentError, SandpoolError } from "../errors.ts";
import type { Reply } from "../http/transport.ts";
import { decodeValue } from "../values/decode.ts";
import { describe } from "../values/describe.ts";
import { parseJson } from "../values/json.ts";
import type { Received } from "./batches.ts";
import { readTiming } from "./batchReply.ts";
import { type RowError, toRowError } from "./rowErrors.ts";
import { inCallerOrder, type Selection } from "./selection.ts";

/** A row at one moment, kept by its pool until it is dropped or the pool ends. */
export interface SavedState {
  readonly id: string;
  readonly poolId: string;
  /** The row it was saved from. */
  readonly row: number;
  /** That row's resets by then, as in the pool's status. */
  readonly episode: number;
  /** Steps since the row's last reset. */
  readonly step: number;
  /** What that reset was given, or null. */
  readonly seed: number | null;
  readonly createdAt: Date;
  /** `fork`: a process that waits; `state`: the environment's own state, as bytes. */
  readonly way: "fork" | "state";
  /** Whether the episode had ended, so that a reset is due. */
  readonly pending: boolean;
  /** Why it cannot be restored any more, or null. Its texts come from the sandbox. */
  readonly lost: RowError | null;
  /** Its memory in bytes where that was asked for and could be sampled. */
  readonly pssBytes: number | null;
}

/** Reads the reply of a save, whose states come in index order, into the caller's. Throws `protocol_violation` when it is none. */
export async function readSaveReply(
  reply: Reply,
  poolId: string,
  selection: Selection,
): Promise<Received<SavedState[]>> {
  const body = parseJson(await reply.body.text()) as { timing?: unknown };
  const states = inCallerOrder(readStates(body, poolId), selection);
  return { timing: readTiming(body.timing), absorb: () => states };
}

/** The states of a reply. Throws `protocol_violation` when it has none. */
export function readStates(body: unknown, poolId: string): SavedState[] {
  const states = (body as { states?: unknown } | null)?.states;
  if (!Array.isArray(states)) {
    throw new SandpoolError("protocol_violation", "The server answered without a list of states.", {
      hint: "Update the client and the server to the same version.",
    });
  }
  return states.map((state: WireState) => ({
    id: state.id,
    poolId,
    row: state.row,
    episode: state.episode,
    step: state.step,
    seed: state.seed,
    createdAt: new Date(state.created_at),
    way: state.way,
    pending: state.pending,
    lost: state.lost === null ? null : toRowError(decodeValue(state.lost)),
    pssBytes: state.pss_bytes ?? null,
  }));
}

/** Checks states that a caller gave back: one, or a list of them. Throws `ArgumentError`. */
export function checkStates(call: string, given: unknown, poolId: string): SavedState[] {
  const states: unknown[] = Array.isArray(given) ? given : [given];
  return states.map((state, place) => {
    const name = Array.isArray(given) ? `states[${place}]` : "states";
    const { id, row, poolId: owner } = (state ?? {}) as Partial<SavedState>;
    if (typeof id !== "string" || !Number.isSafeInteger(row)) {
      throw new ArgumentError(`${call}: ${name} is ${describe(state)}; expected a state that save gave.`);
    }
    if (owner !== poolId) {
      throw new ArgumentError(`${call}: ${name} is ${id} of the pool ${String(owner)}; expected one of ${poolId}.`);
    }
    return state as SavedState;
  });
}
