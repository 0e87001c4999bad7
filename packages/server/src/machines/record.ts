import type { MachineReason, MachineSize, MachineState } from "@sandpool/protocol";
import type { MachinePlan } from "@sandpool/worker";
import type { Insertable } from "kysely";
import type { MachinesTable } from "../store/machinesTable.ts";
import type { MachineRow } from "../store/tables.ts";

/** A machine as the store keeps it and every part of the server sees it. Times are ISO 8601 in UTC. */
export interface MachineRecord {
  id: string;
  owner: string;
  name: string;
  state: MachineState;
  reason: MachineReason | null;
  /** Of the change under way, as in the journal. */
  operationId: string | null;
  plan: MachinePlan;
  size: MachineSize;
  /** As it was asked for. */
  imageName: string;
  /** What the image says of itself: the defaults of an exec. */
  imageDefaults: { user: string | null; cwd: string | null };
  /** The caller's own variables; `plan.environ` has the image's too. */
  environment: Record<string, string>;
  labels: Record<string, string>;
  createdAt: string;
  /** Seconds. */
  lifetimeSeconds: number | null;
  leaseSeconds: number | null;
  /** When the lease ends unless it is renewed. */
  leaseUntil: string | null;
  diskSavedAt: string | null;
  warnings: string[];
  /** 32 bytes in base64url: signs this machine's links. */
  secret: string;
  publicPorts: number[];
  /** Raised by every restore of an earlier state. */
  generation: number;
  /** The boot of the host in which it was last started. */
  bootId: string | null;
}

type Details = Pick<MachineRecord, "size" | "imageDefaults" | "environment" | "labels" | "warnings" | "publicPorts">;

export function toRow(record: MachineRecord): Insertable<MachinesTable> {
  const { size, imageDefaults, environment, labels, warnings, publicPorts } = record;
  const details: Details = { size, imageDefaults, environment, labels, warnings, publicPorts };
  return {
    id: record.id,
    owner: record.owner,
    name: record.name,
    state: record.state,
    reason: record.reason,
    operation_id: record.operationId,
    image_id: record.plan.imageId,
    image_name: record.imageName,
    driver: record.plan.driver,
    plan: JSON.stringify(record.plan),
    details: JSON.stringify(details),
    created_at: record.createdAt,
    lifetime_s: record.lifetimeSeconds,
    lease_s: record.leaseSeconds,
    lease_until: record.leaseUntil,
    disk_saved_at: record.diskSavedAt,
    secret: record.secret,
    generation: record.generation,
    boot_id: record.bootId,
    ended_at: null,
  };
}

/** Of a row that is not `deleted`. */
export function fromRow(row: MachineRow): MachineRecord {
  return {
    ...(JSON.parse(row.details) as Details),
    id: row.id,
    owner: row.owner,
    name: row.name,
    state: row.state as MachineState,
    reason: row.reason,
    operationId: row.operation_id,
    plan: JSON.parse(row.plan) as MachinePlan,
    imageName: row.image_name,
    createdAt: row.created_at,
    lifetimeSeconds: row.lifetime_s,
    leaseSeconds: row.lease_s,
    leaseUntil: row.lease_until,
    diskSavedAt: row.disk_saved_at,
    secret: row.secret,
    generation: row.generation,
    bootId: row.boot_id,
  };
}

/** When it will be deleted; milliseconds since 1970, null: never. */
export function expiryOf(record: Readonly<MachineRecord>): { at: number; by: "lifetime" | "lease" } | null {
  const { createdAt, lifetimeSeconds, leaseUntil } = record;
  const lifetime = lifetimeSeconds === null ? Infinity : Date.parse(createdAt) + lifetimeSeconds * 1000;
  const lease = leaseUntil === null ? Infinity : Date.parse(leaseUntil);
  if (lifetime === Infinity && lease === Infinity) return null;
  return lifetime <= lease ? { at: lifetime, by: "lifetime" } : { at: lease, by: "lease" };
}
