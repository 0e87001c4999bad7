import { type Static, Type } from "typebox";
import type { WireError } from "../errors.ts";
import { ErrorReply } from "../keys.ts";
import { MachineDriver } from "./create.ts";
import { Labels, MachineName, Seconds } from "./rules.ts";
import { MachineSize } from "./size.ts";

export const MACHINE_STATES = ["creating", "running", "stopping", "stopped", "starting", "deleting", "failed"] as const;
export type MachineState = (typeof MACHINE_STATES)[number];
export const MachineState = Type.Unsafe<MachineState>(Type.Union(MACHINE_STATES.map((state) => Type.Literal(state))));

/** Why a machine is `stopped`. */
export const MachineReason = Type.Union([
  Type.Literal("crashed"),
  Type.Literal("out_of_memory"),
  Type.Literal("host_restarted"),
  Type.Literal("stopped"),
]);
export type MachineReason = Static<typeof MachineReason>;

export const MachineNetwork = Type.Union([Type.Literal("open"), Type.Literal("isolated"), Type.Literal("egress")]);
export type MachineNetwork = Static<typeof MachineNetwork>;

export const Machine = Type.Object({
  id: Type.String(),
  name: Type.String(),
  state: MachineState,
  reason: Type.Union([MachineReason, Type.Null()]),
  operation: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: "of the change under way" })),
  image: Type.String(),
  driver: MachineDriver,
  size: MachineSize,
  network: MachineNetwork,
  egress: Type.Union([Type.Array(Type.String()), Type.Null()]),
  labels: Labels,
  environment: Type.Array(Type.String(), { description: "names only" }),
  created_at: Type.String({ description: "ISO 8601, UTC" }),
  lifetime: Type.Union([Type.Number(), Type.Null()], { description: "seconds" }),
  expires_at: Type.Union([Type.String(), Type.Null()], {
    description: "when it will be deleted: by lifetime or lease",
  }),
  lease: Type.Union([Type.Number(), Type.Null()], { description: "seconds" }),
  disk_saved_at: Type.Union([Type.String(), Type.Null()]),
  disk_save_interval: Type.Number({ description: "seconds; 0: only at a stop" }),
  urls: Type.Record(Type.String(), Type.String(), { description: "by port: the public ones" }),
  memory_bytes: Type.Union([Type.Integer(), Type.Null()], { description: "in use; null where it cannot be known" }),
  warnings: Type.Array(Type.String()),
});
export type Machine = Static<typeof Machine>;

export const MachineList = Type.Object({
  machines: Type.Array(Machine),
  quota: Type.Object({ used: Type.Integer(), limit: Type.Integer() }),
});
export type MachineList = Static<typeof MachineList>;

/** The reply of a create of several: the fate of each, in order. */
export const MachineBatch = Type.Object({
  machines: Type.Array(Type.Union([Type.Object({ machine: Machine }), ErrorReply])),
});
export type MachineBatch = Static<typeof MachineBatch>;

export const PatchMachineRequest = Type.Object(
  {
    name: Type.Optional(MachineName),
    labels: Type.Optional(Labels),
    lifetime: Type.Optional(Type.Union([Seconds("from its creation; null: none"), Type.Null()])),
  },
  { additionalProperties: false },
);
export type PatchMachineRequest = Static<typeof PatchMachineRequest>;

export const DeletedMachine = Type.Object({ id: Type.String(), deleted: Type.Literal(true) });
export type DeletedMachine = Static<typeof DeletedMachine>;

export const MachineListQuery = Type.Object(
  {
    label: Type.Optional(
      Type.Union([
        Type.String({ maxLength: 320, pattern: "=" }),
        Type.Array(Type.String({ maxLength: 320, pattern: "=" }), { maxItems: 16 }),
      ]),
    ),
    state: Type.Optional(MachineState),
  },
  { additionalProperties: false },
);

export const MachineParams = Type.Object({ machine: Type.String({ minLength: 1, maxLength: 64 }) });

export type MachinePhase = "image" | "prepare" | "disk" | "network" | "start";

/** One line of a streamed creation. `id` in `accepted` names the operation, not the machine. With `count`, `machines` is last. */
export type MachineEvent =
  | { event: "accepted"; id: string }
  | { event: "progress"; phase: MachinePhase; done: number; total: number }
  | { event: "heartbeat" }
  | { event: "machine"; machine: Machine }
  | ({ event: "machines" } & MachineBatch)
  | { event: "error"; error: WireError; status: number };
