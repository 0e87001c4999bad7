import { type Static, Type } from "typebox";

const NullableText = Type.Union([Type.String(), Type.Null()]);
const NullableInteger = Type.Union([Type.Integer(), Type.Null()]);
const Details = Type.Record(Type.String(), Type.Unknown());

export const DriverCapability = Type.Object({
  name: Type.String(),
  available: Type.Boolean(),
  reason: NullableText,
  hint: NullableText,
  details: Details,
});
export type DriverCapability = Static<typeof DriverCapability>;

export const ToolCapability = Type.Object({
  name: Type.String(),
  path: NullableText,
  version: NullableText,
  needed_for: Type.String(),
  hint: NullableText,
});
export type ToolCapability = Static<typeof ToolCapability>;

/** What a driver can do for machines, found by starting one. */
export const MachineDriverCapability = Type.Object({
  name: Type.String(),
  available: Type.Boolean(),
  reason: NullableText,
  hint: NullableText,
  runtime: Type.Union([Type.Object({ name: Type.String(), version: Type.String(), path: Type.String() }), Type.Null()]),
  fork: Type.Boolean(),
  checkpoint: Type.Boolean(),
  hibernate: Type.Boolean(),
  warnings: Type.Array(Type.String()),
});
export type MachineDriverCapability = Static<typeof MachineDriverCapability>;

/** What one host can do; what `sandpool doctor` prints. */
export const Capabilities = Type.Object({
  version: Type.String(),
  node: Type.String(),
  platform: Type.String(),
  kernel: Type.String(),
  cgroup: Type.Object({
    version: Type.Union([Type.Literal(1), Type.Literal(2), Type.Literal("hybrid"), Type.Null()]),
    controllers: Type.Array(Type.String()),
    writable: Type.Boolean(),
  }),
  user_namespaces: Type.Object({ available: Type.Boolean(), reason: NullableText, details: Details }),
  drivers: Type.Array(DriverCapability),
  limits: Type.Object({
    cpus: Type.Number(),
    memory_bytes: Type.Integer(),
    pids_max: NullableInteger,
    nofile: NullableInteger,
    details: Type.Optional(Details),
  }),
  tools: Type.Array(ToolCapability),
  machines: Type.Optional(
    Type.Object({
      drivers: Type.Array(MachineDriverCapability),
      network: Type.Object({ available: Type.Boolean(), reason: NullableText, hint: NullableText }),
    }),
  ),
});
export type Capabilities = Static<typeof Capabilities>;
