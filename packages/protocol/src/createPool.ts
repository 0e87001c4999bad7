import { type Static, Type } from "typebox";
import { NAME_PATTERN, SHA256_PATTERN } from "./identifiers.ts";

const MAX_SECONDS = 7 * 24 * 3600;

const seconds = (standard: number, description: string) =>
  Type.Number({ exclusiveMinimum: 0, maximum: MAX_SECONDS, default: standard, description });

const size = (standard: string, description: string) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.String({ maxLength: 32 })], { default: standard, description });

const required = {
  archive: Type.String({ pattern: SHA256_PATTERN, description: "sha256 of an uploaded archive" }),
  entry: Type.String({ minLength: 1, maxLength: 1024, description: "the program's path inside the archive" }),
  n: Type.Integer({ minimum: 1, maximum: 100_000, description: "rows" }),
};

const defaulted = {
  seed: Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], { default: null }),
  autoreset: Type.Union([Type.Literal("same_step"), Type.Literal("next_step"), Type.Literal("auto"), Type.Null()], {
    default: null,
    description: "auto: a vectorised environment's own mode, same_step for any other",
  }),
  seeds: Type.Union([Type.Literal("derived"), Type.Literal("continue")], { default: "derived" }),
  start: Type.Union([Type.Literal("auto"), Type.Literal("fork"), Type.Literal("spawn")], { default: "auto" }),
  isolation: Type.Union(
    [Type.Literal("namespace"), Type.Literal("gvisor"), Type.Literal("microvm"), Type.Literal("unisolated")],
    { default: "namespace" },
  ),
  shards: Type.Union([Type.Integer({ minimum: 1, maximum: 100_000 }), Type.Literal("auto")], { default: "auto" }),
  envs_per_process: Type.Union([Type.Integer({ minimum: 1, maximum: 100_000 }), Type.Literal("auto")], {
    default: 1,
    description: "rows that share a process; auto: chosen by the time of a step",
  }),
  python: Type.String({ minLength: 1, maxLength: 1024, default: "/usr/bin/python3" }),
  env: Type.Record(
    Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_]*$" }),
    Type.String({ maxLength: 131_072, pattern: "^[^\\u0000]*$" }),
    {
      default: {},
      description: "environment variables",
      additionalProperties: false,
    },
  ),
  config: Type.Unknown({ default: null, description: "one value for all rows, or a list of n" }),
  image: Type.String({ minLength: 1, maxLength: 512, default: "host" }),
  network: Type.Boolean({ default: false }),
  memory: size("2GiB", "per environment"),
  workspace: size("1GiB", "per environment"),
  step_timeout: seconds(30, "deadline of one row's step"),
  reset_timeout: seconds(60, "deadline of one row's reset"),
  start_timeout: seconds(120, "deadline of one environment's start"),
  call_timeout: seconds(30, "deadline of one row's call"),
  in_flight: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], { default: null }),
  first_reset: Type.Boolean({ default: true }),
  branching: Type.Boolean({ default: true }),
  lease: seconds(600, "the pool closes when nothing asks for it this long"),
  name: Type.Union([Type.String({ pattern: NAME_PATTERN }), Type.Null()], { default: null }),
};

/** A create request with every default filled in: what the worker receives. */
export const CreatePoolRequest = Type.Object({ ...required, ...defaulted }, { additionalProperties: false });
export type CreatePoolRequest = Static<typeof CreatePoolRequest>;

/** A create request as a client may send it: all but `archive`, `entry` and `n` may be left out. */
export const CreatePoolInput = Type.Object(
  { ...required, ...Type.Partial(Type.Object(defaulted)).properties },
  { additionalProperties: false },
);
export type CreatePoolInput = Static<typeof CreatePoolInput>;

/** The create request with the defaults of the members that were left out. */
export function fillCreateDefaults(input: CreatePoolInput): CreatePoolRequest {
  const filled: Record<string, unknown> = { ...input };
  for (const [name, schema] of Object.entries(defaulted)) {
    if (filled[name] === undefined) filled[name] = structuredClone((schema as { default?: unknown }).default);
  }
  return filled as CreatePoolRequest;
}
