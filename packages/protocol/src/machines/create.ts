import { type Static, Type } from "typebox";
import { EGRESS_HOST_PATTERN, Environment, Labels, MachineName, Seconds } from "./rules.ts";
import { MachineSizeInput } from "./size.ts";

export const MachineDriver = Type.Union([Type.Literal("namespace"), Type.Literal("gvisor")]);
export type MachineDriver = Static<typeof MachineDriver>;

const members = {
  name: Type.Union([MachineName, Type.Null()], { default: null, description: "null: one is made" }),
  image: Type.String({ minLength: 1, maxLength: 512, default: "host", description: "name or id" }),
  size: Type.Union([MachineSizeInput], { default: "small" }),
  driver: Type.Union([MachineDriver, Type.Null()], {
    default: null,
    description: "null: gvisor where this host has it, else namespace",
  }),
  isolated: Type.Boolean({ default: false, description: "no network at all" }),
  egress: Type.Union([Type.Array(Type.String({ pattern: EGRESS_HOST_PATTERN }), { maxItems: 256 }), Type.Null()], {
    default: null,
    description: "the only hosts it may reach: names, `*.example.com`, `:port`; null: the internet",
  }),
  environment: Type.Union([Environment], { default: {} }),
  labels: Type.Union([Labels], { default: {} }),
  lifetime: Type.Union([Seconds("deleted so long after its creation"), Type.Null()], { default: null }),
  lease: Type.Union([Seconds("deleted when no POST …/lease came for so long"), Type.Null()], { default: null }),
  count: Type.Integer({ minimum: 1, maximum: 100, default: 1, description: "machines; more than one have NAME-1 …" }),
};

/** A create request with every default filled in. */
export const CreateMachineRequest = Type.Object(members, { additionalProperties: false });
export type CreateMachineRequest = Static<typeof CreateMachineRequest>;

/** A create request as a client may send it: every member may be left out. */
export const CreateMachineInput = Type.Object(Type.Partial(Type.Object(members)).properties, {
  additionalProperties: false,
});
export type CreateMachineInput = Static<typeof CreateMachineInput>;

/** The create request with the defaults of the members that were left out. */
export function fillMachineDefaults(input: CreateMachineInput): CreateMachineRequest {
  const filled: Record<string, unknown> = { ...input };
  for (const [name, schema] of Object.entries(members)) {
    if (filled[name] === undefined) filled[name] = structuredClone((schema as { default?: unknown }).default);
  }
  return filled as CreateMachineRequest;
}
