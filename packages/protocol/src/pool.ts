import { type Static, Type } from "typebox";
import { Layout } from "./layout.ts";

const NullableText = Type.Union([Type.String(), Type.Null()]);

export const StartTiming = Type.Object({
  upload_ms: Type.Optional(Type.Number()),
  layer_ms: Type.Number(),
  template_ms: Type.Number(),
  start_ms: Type.Number(),
  reset_ms: Type.Number(),
  total_ms: Type.Number(),
});
export type StartTiming = Static<typeof StartTiming>;

/** How many rows share a process, and why. Process p of a shard has its rows `p * rows_per_process …`; only the pool's last one is shorter. */
export const Packing = Type.Object({
  requested: Type.Union([Type.Integer({ minimum: 1 }), Type.Literal("auto")]),
  rows_per_process: Type.Integer({ minimum: 1 }),
  processes: Type.Integer({ minimum: 1 }),
  step_us: Type.Union([Type.Number(), Type.Null()], {
    description: "microseconds of one environment's step, where it was measured",
  }),
  reason: Type.String(),
});
export type Packing = Static<typeof Packing>;

export const AutoresetMode = Type.Union([Type.Literal("same_step"), Type.Literal("next_step"), Type.Null()]);
export type AutoresetMode = Static<typeof AutoresetMode>;

/** What a vectorised environment (`serve(make_vec=…)`) said of itself. */
export const Vector = Type.Object({
  class: Type.String(),
  autoreset: AutoresetMode,
  partial_reset: Type.Boolean({ description: "it can reset some of its rows" }),
  row_seeds: Type.Boolean({ description: "it takes a seed and options for each of its rows" }),
});
export type Vector = Static<typeof Vector>;

/** A pool as the worker describes it. The server adds `endpoint`. */
export const PoolDescription = Type.Object({
  id: Type.String(),
  name: NullableText,
  n: Type.Integer(),
  state: Type.Union([Type.Literal("ready"), Type.Literal("closing"), Type.Literal("closed"), Type.Literal("lost")]),
  seed: Type.Union([Type.Integer(), Type.Null()]),
  autoreset: AutoresetMode,
  seeds: Type.String(),
  entry: Type.String(),
  isolation: Type.String(),
  shards: Type.Integer(),
  packing: Packing,
  vector: Type.Union([Vector, Type.Null()]),
  start: Type.Object({ way: Type.String(), reason: NullableText, timing: StartTiming }),
  layout: Layout,
  features: Type.Array(Type.String()),
  observation_space: Type.Unknown(),
  action_space: Type.Unknown(),
  metadata: Type.Unknown(),
  render_mode: Type.Unknown(),
  spec: Type.Unknown(),
  limits: Type.Record(Type.String(), Type.Unknown()),
  lease: Type.Object({ seconds: Type.Number(), expires_at: Type.String({ description: "ISO 8601, UTC" }) }),
  warnings: Type.Array(Type.String()),
  endpoint: Type.Optional(
    Type.Object({
      url: Type.String(),
      socket: Type.Optional(
        Type.String({ description: "unix socket with the same routes, for clients on the server's host" }),
      ),
      token: Type.Optional(Type.String()),
      expires_at: Type.Optional(Type.String()),
    }),
  ),
  next_seq: Type.Integer({ minimum: 1 }),
});
export type PoolDescription = Static<typeof PoolDescription>;

export const RowState = Type.Union([
  Type.Literal("ready"),
  Type.Literal("busy"),
  Type.Literal("failed"),
  Type.Literal("starting"),
  Type.Literal("lost"),
]);
export type RowState = Static<typeof RowState>;

export const RowStatus = Type.Object({
  row: Type.Integer(),
  pid: Type.Union([Type.Integer(), Type.Null()]),
  epoch: Type.Integer(),
  episode: Type.Integer(),
  state: RowState,
  error: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()]),
  replacements: Type.Integer(),
  pss_bytes: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
});
export type RowStatus = Static<typeof RowStatus>;

export const PoolCounters = Type.Object({
  late_replies: Type.Integer(),
  replacements: Type.Integer(),
  stragglers: Type.Integer(),
});
export type PoolCounters = Static<typeof PoolCounters>;

export const PoolMemory = Type.Object({
  method: Type.String({ description: "how it was sampled, such as smaps_rollup" }),
  environments_pss_bytes: Type.Integer({ description: "the sum over all rows" }),
  templates_pss_bytes: Type.Integer(),
  agents_pss_bytes: Type.Integer(),
  states_pss_bytes: Type.Integer({ description: "the sum over all saved states" }),
});
export type PoolMemory = Static<typeof PoolMemory>;

/** What the worker adds to a description when asked for the status; `memory` is null unless it was asked for. */
export const PoolStatus = Type.Object({
  rows: Type.Array(RowStatus),
  counters: PoolCounters,
  memory: Type.Union([PoolMemory, Type.Null()]),
});
export type PoolStatus = Static<typeof PoolStatus>;

/** `GET /v1/pools/{id}`: description and status in one object. */
export const PoolReply = Type.Object({ ...PoolDescription.properties, ...Type.Partial(PoolStatus).properties });
export type PoolReply = Static<typeof PoolReply>;

export const PoolList = Type.Object({ pools: Type.Array(PoolReply) });
export type PoolList = Static<typeof PoolList>;

export const ClosedPool = Type.Object({ id: Type.String(), closed: Type.Literal(true) });
export type ClosedPool = Static<typeof ClosedPool>;

export const Lease = Type.Object({ lease: Type.Number(), expires_at: Type.String() });
export type Lease = Static<typeof Lease>;

export type CreatePhase = "layer" | "template" | "start" | "reset";

/** One line of a streamed creation. `id` in `accepted` names the operation, not the pool. */
export type CreateEvent =
  | { event: "accepted"; id: string }
  | { event: "progress"; phase: CreatePhase; done: number; total: number }
  | { event: "heartbeat" }
  | { event: "pool"; pool: PoolReply }
  | {
      event: "error";
      error: { code: string; message: string; hint: string | null; details: Record<string, unknown> };
      status: number;
    };
