import { type Static, Type } from "typebox";
import { BatchTiming, Where } from "./batches.ts";
import { Client, Index, Seed, Sequence } from "./batchMembers.ts";

const StateId = Type.String({ minLength: 1, maxLength: 64, description: "of a saved state" });

/** Null: exact copies. An integer s gives target row i the seed s + i, a list one for each pair, true a derived one. */
export const Reseed = Type.Union([
  Type.Null(),
  Type.Literal(true),
  Seed,
  Type.Array(Type.Union([Type.Null(), Seed]), { description: "one for each pair; null: none" }),
]);
export type Reseed = Static<typeof Reseed>;

const numbered = { seq: Sequence, client: Type.Optional(Client) };

export const ForkRequest = Type.Object(
  {
    ...numbered,
    pairs: Type.Array(Type.Tuple([Index, Index], { maxItems: 2 }), {
      description: "source row and target row; targets are unique",
    }),
    reseed: Type.Optional(Reseed),
  },
  { additionalProperties: false },
);
export type ForkRequest = Static<typeof ForkRequest>;

export const SaveRequest = Type.Object({ ...numbered, where: Type.Optional(Where) }, { additionalProperties: false });
export type SaveRequest = Static<typeof SaveRequest>;

export const RestoreRequest = Type.Object(
  {
    ...numbered,
    pairs: Type.Array(Type.Tuple([StateId, Index], { maxItems: 2 }), {
      description: "state and target row; targets are unique",
    }),
    reseed: Type.Optional(Reseed),
  },
  { additionalProperties: false },
);
export type RestoreRequest = Static<typeof RestoreRequest>;

export const DropRequest = Type.Object(
  { states: Type.Union([Type.Null(), Type.Array(StateId)], { description: "null: all" }) },
  { additionalProperties: false },
);
export type DropRequest = Static<typeof DropRequest>;

/** `fork`: a process that waits; `state`: the environment's own state, as bytes. */
export const BranchWay = Type.Union([Type.Literal("fork"), Type.Literal("state")]);
export type BranchWay = Static<typeof BranchWay>;

/** A row at one moment, kept to be restored. */
export const SavedState = Type.Object({
  id: StateId,
  row: Type.Integer({ description: "the row it was saved from" }),
  episode: Type.Integer({ description: "that row's resets by then, as in its status" }),
  step: Type.Integer({ description: "steps since the row's last reset" }),
  seed: Type.Union([Type.Integer(), Type.Null()], { description: "what that reset was given" }),
  created_at: Type.String({ description: "ISO 8601, UTC" }),
  way: BranchWay,
  pending: Type.Boolean({ description: "whether the episode had ended, so that a reset is due" }),
  lost: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()], {
    description: "why it is lost, in the form of a row's error",
  }),
  pss_bytes: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
});
export type SavedState = Static<typeof SavedState>;

/** The reply of a save: one state for each selected row, in index order. */
export const SaveReply = Type.Object({ seq: Sequence, states: Type.Array(SavedState), timing: BatchTiming });
export type SaveReply = Static<typeof SaveReply>;

export const StateList = Type.Object({
  states: Type.Array(SavedState),
  limits: Type.Object({
    states: Type.Integer({ description: "in one sandbox" }),
    bytes: Type.Integer({ description: "of the states of way `state` in one sandbox, together" }),
  }),
});
export type StateList = Static<typeof StateList>;

export const DroppedStates = Type.Object({ dropped: Type.Array(StateId) });
export type DroppedStates = Static<typeof DroppedStates>;

/** An item of `details.sources` of `fork_unsupported`: what could not be copied, what stood in the way, and the same in words. */
export interface UncopiedSource {
  row?: number;
  state?: string;
  blockers: Readonly<Record<string, unknown>>[];
  text: string;
}
