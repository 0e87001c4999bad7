import { availableParallelism, totalmem } from "node:os";
import {
  type CreateMachineRequest,
  formatSize,
  MACHINE_NAME_PATTERN,
  type MachineSize,
  makeMachineId,
  resolveMachineSize,
  SandpoolError,
} from "@sandpool/protocol";
import type { ImageStore, MachineHost, MachineNetworkPolicy, MachineProbe, ResolvedImage } from "@sandpool/worker";
import { now } from "../store/operations.ts";
import { diskOf } from "./admission.ts";
import type { MachineRecord } from "./record.ts";
import { makeSecret } from "./registry.ts";

const LEAST_MEMORY_BYTES = 64 * 2 ** 20;
const LEAST_DISK_BYTES = 16 * 2 ** 20;

type DriverName = "namespace" | "gvisor";

/** A create request that was checked against this host: what all machines of it have in common. */
export interface CheckedRequest {
  request: CreateMachineRequest;
  image: ResolvedImage;
  driver: DriverName;
  size: MachineSize;
  network: MachineNetworkPolicy;
  warnings: string[];
}

/** Checks a request as far as it can be before anything is made. @throws `invalid_request`, `image_not_found`, `driver_unavailable` */
export async function checkRequest(
  request: CreateMachineRequest,
  { host, images, dataDir }: { host: MachineHost; images: ImageStore; dataDir: string },
): Promise<CheckedRequest> {
  const network = networkOf(request);
  checkName(request);
  const asked = resolveMachineSize(request.size);
  const image = await images.resolve(request.image);
  const driver = chooseDriver(request.driver, image, await host.probe());
  const { size, warnings } = await capToHost(asked, dataDir);
  return { request, image, driver, size, network, warnings };
}

function networkOf({ isolated, egress }: CreateMachineRequest): MachineNetworkPolicy {
  if (!isolated) return egress === null ? { kind: "open" } : { kind: "egress", hosts: egress };
  if (egress === null) return { kind: "isolated" };
  throw new SandpoolError("invalid_request", "isolated is true and egress lists hosts; one of them was expected", {
    hint: "leave out isolated to allow the hosts of egress, or egress to allow none",
  });
}

function checkName({ name, count }: CreateMachineRequest): void {
  if (name === null || count === 1) return;
  const last = `${name}-${count}`;
  if (new RegExp(MACHINE_NAME_PATTERN).test(last)) return;
  throw new SandpoolError(
    "invalid_request",
    `name is ${JSON.stringify(name)}; with count ${count} ${last} is no name`,
    {
      hint: `machines of one request are NAME-1 to NAME-${count}, of 40 characters at most`,
    },
  );
}

function chooseDriver(asked: DriverName | null, image: ResolvedImage, probes: readonly MachineProbe[]): DriverName {
  const faults = (["gvisor", "namespace"] as const)
    .filter((name) => asked === null || asked === name)
    .map((name) => ({ name, fault: driverFault(name, image, probes) }));
  const fit = faults.find(({ fault }) => fault === null);
  if (fit !== undefined) return fit.name;
  const reasons = faults.map(({ name, fault }) => `${name}: ${fault?.reason}`).join("; ");
  throw new SandpoolError("driver_unavailable", `no driver can run the image ${image.name} here (${reasons})`, {
    hint: faults.find(({ fault }) => fault?.hint)?.fault?.hint ?? "GET /v1/capabilities shows what this host can do",
    details: Object.fromEntries(faults.map(({ name, fault }) => [name, fault])),
  });
}

function driverFault(name: DriverName, image: ResolvedImage, probes: readonly MachineProbe[]) {
  const probe = probes.find((found) => found.name === name);
  if (probe?.available !== true) {
    return { reason: probe?.reason ?? "this host does not have it", hint: probe?.hint ?? null };
  }
  const { allowed, reason } = image.drivers[name];
  return allowed ? null : { reason: reason ?? "the image does not allow it", hint: "use another driver or image" };
}

async function capToHost(asked: MachineSize, dataDir: string): Promise<{ size: MachineSize; warnings: string[] }> {
  if (asked.memory < LEAST_MEMORY_BYTES) throw tooSmall("memory", asked.memory, LEAST_MEMORY_BYTES);
  if (asked.disk < LEAST_DISK_BYTES) throw tooSmall("disk", asked.disk, LEAST_DISK_BYTES);
  const { totalBytes } = await diskOf(dataDir);
  const host: MachineSize = { vcpu: availableParallelism(), memory: totalmem(), disk: totalBytes };
  const size = { ...asked };
  const warnings: string[] = [];
  for (const member of ["vcpu", "memory", "disk"] as const) {
    if (asked[member] <= host[member]) continue;
    size[member] = host[member];
    const show = (value: number) => (member === "vcpu" ? String(value) : formatSize(value));
    warnings.push(`${member} is ${show(host[member])}, all this host has, not ${show(asked[member])}`);
  }
  return { size, warnings };
}

function tooSmall(member: string, received: number, leastBytes: number): SandpoolError {
  return new SandpoolError(
    "invalid_request",
    `size.${member} is ${formatSize(received)}, at least ${formatSize(leastBytes)} was expected`,
    { details: { received_bytes: received, least_bytes: leastBytes } },
  );
}

/** The record of a machine that is about to be made. */
export function newRecord(checked: CheckedRequest, owner: string, name: string): MachineRecord {
  const { request, image, driver, size, network, warnings } = checked;
  const id = makeMachineId();
  const environ = { ...image.environ, ...request.environment };
  return {
    id,
    owner,
    name,
    state: "creating",
    reason: null,
    operationId: null,
    plan: {
      id,
      name,
      driver,
      imageId: image.id,
      vcpu: size.vcpu,
      memoryBytes: size.memory,
      diskBytes: size.disk,
      environ,
      network,
    },
    size,
    imageName: image.name,
    imageDefaults: { user: image.user, cwd: image.cwd },
    environment: request.environment,
    labels: request.labels,
    createdAt: now(),
    lifetimeSeconds: request.lifetime,
    leaseSeconds: request.lease,
    leaseUntil: null,
    diskSavedAt: null,
    warnings,
    secret: makeSecret(),
    publicPorts: [],
    generation: 0,
    bootId: null,
  };
}
