import type { Machine } from "@sandpool/protocol";
import type { ServerLimits } from "../options.ts";
import { expiryOf, type MachineRecord } from "./record.ts";

/** A machine as clients get it. `urlOf` gives the address of one of its ports. */
export function describeMachine(
  record: Readonly<MachineRecord>,
  limits: ServerLimits,
  urlOf: (name: string, port: number) => string,
  memoryBytes: number | null = null,
): Machine {
  const { plan } = record;
  const expiry = expiryOf(record);
  return {
    id: record.id,
    name: record.name,
    state: record.state,
    reason: record.reason,
    operation: record.operationId,
    image: record.imageName,
    driver: plan.driver,
    size: record.size,
    network: plan.network.kind,
    egress: plan.network.kind === "egress" ? [...plan.network.hosts] : null,
    labels: record.labels,
    environment: Object.keys(record.environment).sort(),
    created_at: record.createdAt,
    lifetime: record.lifetimeSeconds,
    expires_at: expiry === null ? null : new Date(expiry.at).toISOString(),
    lease: record.leaseSeconds,
    disk_saved_at: record.diskSavedAt,
    disk_save_interval: limits.diskSaveIntervalMs / 1000,
    urls: Object.fromEntries(record.publicPorts.map((port) => [String(port), urlOf(record.name, port)])),
    memory_bytes: memoryBytes,
    warnings: record.warnings,
  };
}
