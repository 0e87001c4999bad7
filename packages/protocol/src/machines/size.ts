import { type Static, Type } from "typebox";
import { parseSizeBytes } from "../sizes.ts";

const GIB = 2 ** 30;

/** What the three named sizes have. Memory and disk in bytes. */
export const MACHINE_SIZES = {
  small: { vcpu: 1, memory: 1 * GIB, disk: 5 * GIB },
  medium: { vcpu: 2, memory: 4 * GIB, disk: 20 * GIB },
  large: { vcpu: 4, memory: 8 * GIB, disk: 50 * GIB },
} as const satisfies Record<string, MachineSize>;

/** The figures a machine has; bytes. */
export const MachineSize = Type.Object({
  vcpu: Type.Number(),
  memory: Type.Integer({ description: "bytes its programs may use" }),
  disk: Type.Integer({ description: "bytes of its writable layer" }),
});
export type MachineSize = Static<typeof MachineSize>;

const bytes = Type.Union([Type.Integer({ minimum: 1 }), Type.String({ maxLength: 32 })], {
  description: 'bytes, or a text such as "2GiB"',
});

/** A size as it is asked for: by name or by figures, which have those of `small` where they are left out. */
export const MachineSizeInput = Type.Union([
  Type.Literal("small"),
  Type.Literal("medium"),
  Type.Literal("large"),
  Type.Object(
    {
      vcpu: Type.Optional(Type.Integer({ minimum: 1, maximum: 1024 })),
      memory: Type.Optional(bytes),
      disk: Type.Optional(bytes),
    },
    { additionalProperties: false },
  ),
]);
export type MachineSizeInput = Static<typeof MachineSizeInput>;

/** The figures of an asked size, before they are capped to the host. @throws `invalid_request` */
export function resolveMachineSize(input: MachineSizeInput): MachineSize {
  if (typeof input === "string") return { ...MACHINE_SIZES[input] };
  const { vcpu, memory, disk } = input;
  return {
    vcpu: vcpu ?? MACHINE_SIZES.small.vcpu,
    memory: memory === undefined ? MACHINE_SIZES.small.memory : parseSizeBytes(memory, "size.memory"),
    disk: disk === undefined ? MACHINE_SIZES.small.disk : parseSizeBytes(disk, "size.disk"),
  };
}
