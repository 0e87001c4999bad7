import { type Static, Type } from "typebox";
import type { BatchTiming } from "./batches.ts";
import type { WireError } from "./errors.ts";

/** Subprotocols of the stream by the form of its results. Contract: docs/internals/stream.md. */
export const STREAM_PROTOCOLS = { json: "sandpool.json", binary: "sandpool.batch" } as const;

/** With what codes a server closes a stream's WebSocket. */
export const STREAM_CLOSE_CODES = {
  serverStops: 1001,
  tooSlow: 1008,
  internal: 1011,
  brokenContract: 4400,
  keyRevoked: 4401,
  poolUnknown: 4404,
  taken: 4409,
  poolEnded: 4410,
} as const;

export const MAX_SESSION_LENGTH = 64;

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Row = Type.Integer({ minimum: 0, maximum: 0xffffffff });

const common = {
  number: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  where: Type.Array(Row),
  received: Type.Optional(Count),
};

/** A step whose actions stand beside it, in a binary message's field. */
export const StreamStepHead = Type.Object({ ...common, op: Type.Literal("step") }, { additionalProperties: false });
export type StreamStepHead = Static<typeof StreamStepHead>;

export const StreamStep = Type.Object(
  { ...common, op: Type.Literal("step"), actions: Type.Array(Type.Unknown()) },
  { additionalProperties: false },
);
export type StreamStep = Static<typeof StreamStep>;

export const StreamReset = Type.Object(
  {
    ...common,
    op: Type.Literal("reset"),
    seed: Type.Optional(Type.Union([Type.Null(), Count, Type.Array(Type.Union([Type.Null(), Count]))])),
    options: Type.Optional(Type.Unknown({ description: "null, one object for all, or a list for the rows" })),
    hard: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
);
export type StreamReset = Static<typeof StreamReset>;

/** The first message of every connection: the last number taken, and the number of the first result that follows. */
export interface StreamOpened {
  event: "open";
  accepted: number;
  next_result: number;
}

/** Nothing of message `number` was sent to any row. */
export interface StreamRefused {
  event: "refused";
  number: number;
  error: WireError;
}

/** Why the server closes the connection. */
export interface StreamFailed {
  event: "error";
  error: WireError;
}

/** Rows that finished, in JSON: columns as in a batch, row `where[j]` did `ops[j]`. */
export interface StreamResult {
  number: number;
  where: number[];
  ops: ("step" | "reset")[];
  obs: unknown[];
  rewards: unknown[];
  terminated: boolean[];
  truncated: boolean[];
  infos: Record<string, unknown>[];
  failed: number[];
  timing: BatchTiming;
  warnings?: string[];
}
