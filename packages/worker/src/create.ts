import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { findAgent } from "./agent/find.ts";
import { openArchiveStore } from "./archives/store.ts";
import { describeCapabilities } from "./capabilities.ts";
import type { Driver, DriverName } from "./drivers/driver.ts";
import { createDriver } from "./drivers/drivers.ts";
import type { MachineDriverName } from "./drivers/machine.ts";
import { createMachineDriver } from "./drivers/machines/create.ts";
import { reapLeftovers } from "./host/reap.ts";
import { removeTree } from "./host/remove-tree.ts";
import { openImageStore } from "./images/store.ts";
import { openLayerStore } from "./layers/store.ts";
import { createMachineHost } from "./machines/host.ts";
import { createNetworks } from "./network/networks.ts";
import type { WorkerOptions } from "./options.ts";
import { defaultLimits } from "./pools/limits.ts";
import { makePoolRegistry } from "./pools/registry.ts";
import { openStorage } from "./storage/storage.ts";
import { Uses } from "./storage/uses.ts";
import type { Worker } from "./worker.ts";

/**
 * Opens the worker of this host: archives, layers, drivers and pools under one data folder.
 *
 * @example
 * const worker = await createWorker({ dataDir: "/var/lib/sandpool" });
 * const pool = await worker.pools.create(owner, request, rawBody, { signal });
 */
export async function createWorker(options: WorkerOptions): Promise<Worker> {
  const dataDir = resolve(options.dataDir);
  const limits = { ...defaultLimits, ...options.limits };
  await mkdir(dataDir, { recursive: true, mode: 0o711 });
  const runFolder = join(dataDir, "run");
  // Workspaces of pools that nothing isolates; no pool outlives its worker.
  await removeTree(runFolder);
  const reaped = await reapLeftovers(dataDir);
  for (const left of reaped.left) options.warn?.(`left by an earlier server: ${left}`);
  const agentPath = options.agentPath ?? findAgent();
  const driverOptions = { dataDir, agentPath, ...(options.warn === undefined ? {} : { warn: options.warn }) };
  const names: DriverName[] = options.allowUnisolated ? ["namespace", "gvisor", "unisolated"] : ["namespace", "gvisor"];
  const drivers = new Map<string, Driver>(names.map((name) => [name, createDriver(name, driverOptions)]));
  const archives = await openArchiveStore(join(dataDir, "archives"), limits.archives);
  const layers = await openLayerStore(join(dataDir, "layers"));
  const privateHosts = options.privateHosts ?? [];
  const uses = new Uses();
  const kept = { uses, dataDir };
  const pools = makePoolRegistry({ archives, layers, drivers, limits, privateHosts, agentPath, runFolder, kept });
  const machineDrivers = new Map(MACHINE_DRIVERS.map((name) => [name, createMachineDriver(name, driverOptions)]));
  const networks = createNetworks({
    ...{ dataDir, allowed: options.machinesMayReach ?? [] },
    ...(options.warn === undefined ? {} : { warn: options.warn }),
  });
  const images = await openImageStore({
    ...{ dataDir, privateHosts, driver: drivers.get("namespace") ?? null },
    limits: { freeDiskBytes: limits.freeDiskBytes },
  });
  const machines = createMachineHost({ ...driverOptions, drivers: machineDrivers, images, networks });
  return {
    archives,
    pools,
    machines,
    images,
    networks,
    storage: openStorage(dataDir, uses),
    capabilities: () => describeCapabilities(dataDir, agentPath, limits, drivers, machines, networks),
    close: async () => {
      await images.close();
      await machines.close();
      await networks.close({ keep: true });
      await pools.closeAll();
      for (const driver of drivers.values()) await driver.close?.();
    },
  };
}

/** The first one is asked for when nobody names one. */
const MACHINE_DRIVERS: readonly MachineDriverName[] = ["gvisor", "namespace"];
