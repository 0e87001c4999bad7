import type { CreateMachineInput, MachineSizeInput } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";

/** Progress of a creation: `done` of `total` steps of a phase. */
export interface MachineProgress {
  phase: "image" | "prepare" | "disk" | "network" | "start";
  done: number;
  total: number;
}

/** What a machine is made from; everything may be left out. */
export interface MachineOptions {
  /** `[a-z][a-z0-9-]{0,39}`, unique among your machines; one is made where it is left out. */
  name?: string | undefined;
  /** Name or id. Default `host`: the host's own `/usr`, read-only. */
  image?: string | undefined;
  /** Default `small`: 1 vCPU, 1 GiB memory, 5 GiB disk. */
  size?: MachineSizeInput | undefined;
  /** Default: `gvisor` where the host has it, else `namespace`. */
  driver?: "namespace" | "gvisor" | undefined;
  /** No network at all. */
  isolated?: boolean | undefined;
  /** The only hosts it may reach: names, `*.example.com`, `name:port`. */
  egress?: readonly string[] | undefined;
  environment?: Readonly<Record<string, string>> | undefined;
  labels?: Readonly<Record<string, string>> | undefined;
  /** Deleted so long after its creation, whatever it does. */
  lifetimeSeconds?: number | undefined;
  /** Deleted when `renewLease` was not called for so long. */
  leaseSeconds?: number | undefined;
  onProgress?: ((progress: MachineProgress) => void) | undefined;
  /** An abort rolls the creation back. */
  signal?: AbortSignal | undefined;
}

const NAMES = {
  name: "name",
  image: "image",
  size: "size",
  driver: "driver",
  isolated: "isolated",
  egress: "egress",
  environment: "environment",
  labels: "labels",
  lifetimeSeconds: "lifetime",
  leaseSeconds: "lease",
} as const satisfies Partial<Record<keyof MachineOptions, keyof CreateMachineInput>>;

const LOCAL = ["onProgress", "signal"];

/** The request of a creation. An unknown option is refused, so that a slip of the pen is no machine without a limit. */
export function toMachineRequest(options: MachineOptions): CreateMachineInput {
  checkNames(options, [...Object.keys(NAMES), ...LOCAL]);
  const request: Record<string, unknown> = {};
  for (const [name, wire] of Object.entries(NAMES)) {
    const value = options[name as keyof typeof NAMES];
    if (value !== undefined) request[wire] = value;
  }
  return request;
}

/** Refuses members that are not among `known`. */
export function checkNames(options: object, known: readonly string[]): void {
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new ArgumentError(`The option ${JSON.stringify(unknown)} is unknown; expected: ${known.join(", ")}.`);
}

/** Checks a time in seconds, or its absence. */
export function checkSeconds(name: string, value: unknown): void {
  if (value === undefined || (typeof value === "number" && value > 0 && Number.isFinite(value))) return;
  throw new ArgumentError(`${name} is ${describe(value)}; expected a positive, finite number of seconds.`);
}

/** The route of a machine. */
export function machinePath(machine: string, rest = ""): string {
  if (typeof machine !== "string" || machine === "") {
    throw new ArgumentError(`The machine is ${describe(machine)}; expected an id or a name.`);
  }
  return `/v1/machines/${encodeURIComponent(machine)}${rest}`;
}

/** Members that are not undefined as a query with its question mark; empty without any. */
export function toQuery(members: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value !== undefined) query.append(name, String(value));
  return query.size === 0 ? "" : `?${query}`;
}
