import { type Static, Type } from "typebox";
import { Client, Index, Seed, Sequence } from "./batchMembers.ts";

export { Sequence };

/** Which rows: all (null), a mask of n booleans, or row indices, unique and in range. */
export const Where = Type.Union([Type.Null(), Type.Array(Type.Boolean()), Type.Array(Index)]);
export type Where = Static<typeof Where>;

export const ResetRequest = Type.Object(
  {
    seq: Sequence,
    client: Type.Optional(Client),
    seed: Type.Optional(Type.Union([Type.Null(), Seed, Type.Array(Type.Union([Type.Null(), Seed]))])),
    where: Type.Optional(Where),
    hard: Type.Optional(Type.Boolean({ default: false })),
    options: Type.Optional(Type.Unknown({ description: "null, one object for all, or a list for the selected rows" })),
  },
  { additionalProperties: false },
);
export type ResetRequest = Static<typeof ResetRequest>;

export const StepRequest = Type.Object(
  {
    seq: Sequence,
    client: Type.Optional(Client),
    actions: Type.Array(Type.Unknown()),
    where: Type.Optional(Where),
  },
  { additionalProperties: false },
);
export type StepRequest = Static<typeof StepRequest>;

export const CallKind = Type.Union([
  Type.Literal("call"),
  Type.Literal("get"),
  Type.Literal("set"),
  Type.Literal("has"),
  Type.Literal("wrapped"),
]);
export type CallKind = Static<typeof CallKind>;

export const CallRequest = Type.Object(
  {
    seq: Sequence,
    client: Type.Optional(Client),
    call: Type.Optional(CallKind),
    name: Type.String({ minLength: 1, maxLength: 1024 }),
    args: Type.Optional(Type.Array(Type.Unknown())),
    kwargs: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    values: Type.Optional(Type.Unknown({ description: "for set: one value" })),
    per_row: Type.Optional(Type.Boolean({ description: "for set: values is a list, one for each selected row" })),
    where: Type.Optional(Where),
    timeout: Type.Optional(Type.Union([Type.Null(), Type.Number({ exclusiveMinimum: 0 })])),
  },
  { additionalProperties: false },
);
export type CallRequest = Static<typeof CallRequest>;

export const BatchTiming = Type.Object({
  worker_ms: Type.Number(),
  slowest_ms: Type.Number(),
  slowest_row: Type.Union([Index, Type.Null()]),
  stragglers: Type.Array(Index),
});
export type BatchTiming = Static<typeof BatchTiming>;

/**
 * A batch reply in JSON. Reset has `obs` and `infos`, fork and restore `reseeded` too; call has `results` and `infos`; observations have no `seq`.
 */
export const BatchReply = Type.Object({
  seq: Type.Optional(Sequence),
  obs: Type.Optional(Type.Array(Type.Unknown())),
  rewards: Type.Optional(Type.Array(Type.Unknown())),
  terminated: Type.Optional(Type.Array(Type.Boolean())),
  truncated: Type.Optional(Type.Array(Type.Boolean())),
  results: Type.Optional(Type.Array(Type.Unknown())),
  infos: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  failed: Type.Optional(Type.Array(Index)),
  reseeded: Type.Optional(
    Type.Array(Type.Union([Type.Array(Type.String()), Type.Null()]), {
      description: "for each target in index order what was reseeded; null where that was not asked",
    }),
  ),
  warnings: Type.Optional(Type.Array(Type.String())),
  timing: Type.Optional(BatchTiming),
});
export type BatchReply = Static<typeof BatchReply>;

/** Figures of one batch that a worker may attach to its encoded reply, for the metrics. */
export interface BatchSummary {
  rows: number;
  stragglers: number;
  /** Failed rows by kind, such as `{timeout: 2}`. */
  failures: Readonly<Record<string, number>>;
}
