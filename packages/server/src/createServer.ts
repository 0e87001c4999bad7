import type { AddressInfo } from "node:net";
import type { Worker } from "@sandpool/worker";
import { chooseLocalKey } from "./credentials/chooseLocalKey.ts";
import { type Discovery, openDiscovery } from "./credentials/discovery.ts";
import { AttachServer } from "./exec/attach/attachServer.ts";
import { ExecShared } from "./exec/context.ts";
import { type App, buildApp } from "./http/app.ts";
import { Gate } from "./http/gate.ts";
import { AllowedHosts } from "./http/hosts.ts";
import { InFlight } from "./http/inFlight.ts";
import { DEFAULT_LISTEN, type ListenAddress, parseListen, requireSafeListen } from "./http/listenAddress.ts";
import { type LocalSocket, openLocalSocket } from "./http/localSocket.ts";
import { Upgrades } from "./http/upgrades.ts";
import { loadKeyring } from "./keys/loadKeyring.ts";
import { KeyManager } from "./keys/manageKeys.ts";
import { Machines } from "./machines/machines.ts";
import { Metrics } from "./metrics.ts";
import { DEFAULT_LIMITS, type ServerOptions } from "./options.ts";
import { PoolCatalog } from "./pools/catalog.ts";
import { PoolCreator } from "./pools/createPool.ts";
import { IdempotencyRecords } from "./pools/idempotency.ts";
import { SavedStateCounts } from "./pools/savedStates.ts";
import { PortServer } from "./ports/portServer.ts";
import { StorageKeeper } from "./storage/keeper.ts";
import { type DataFolderLock, lockDataFolder } from "./store/lockDataFolder.ts";
import { openStore, type Store } from "./store/openStore.ts";
import { OperationJournal } from "./store/operations.ts";
import { StreamServer } from "./stream/streamServer.ts";

/** How long a stop waits for callers to take their last answers. */
const LAST_ANSWERS_MS = 2_000;

/** A listening server. */
export interface RunningServer {
  /** Base address, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** The key in the credentials file: made at the first start, kept after. */
  readonly key: string;
  /** Machines that run on when the server ends now. */
  runningMachines(): { id: string; name: string; owner: string }[];
  /** Resolves when every machine of an earlier server is taken over, or its end is known. */
  machinesSettled(): Promise<void>;
  /**
   * Rolls back creations, closes the worker and every pool, removes the url from the credentials file. Machines run on;
   * with `stopMachines` they are stopped first, their disks saved; `runningMachines` then tells which would not stop.
   */
  close(options?: { stopMachines?: boolean }): Promise<void>;
}

/**
 * Starts the API on a worker. One server alone uses a data folder.
 * Throws `data_folder_locked`, `data_folder_unknown`, `listen_refused` or `credentials_refused`.
 *
 * @example
 * const server = await createServer({ worker, dataDir: "/var/lib/sandpool", listen: "127.0.0.1:7070", logger });
 * await server.close();
 */
export async function createServer(options: ServerOptions): Promise<RunningServer> {
  const address = parseListen(options.listen ?? DEFAULT_LISTEN);
  requireSafeListen(address, options.tls !== undefined, options.insecure === true);
  const lock = lockDataFolder(options.dataDir);
  let worker: Worker | undefined;
  try {
    worker = typeof options.worker === "function" ? await options.worker() : options.worker;
    return await startWith({ ...options, worker }, address, lock);
  } catch (error) {
    if (typeof options.worker === "function") await worker?.close();
    lock.release();
    throw error;
  }
}

type ReadyOptions = ServerOptions & { worker: Worker };

async function startWith(options: ReadyOptions, address: ListenAddress, lock: DataFolderLock): Promise<RunningServer> {
  const store = await openStore(options.dataDir);
  let parts: Parts | undefined;
  try {
    const ready = await assemble(options, store);
    parts = ready;
    // Before this server could make anything.
    const held = await options.worker.machines.list();
    const url = await listen(options, address, ready);
    if (options.tls === undefined) await ready.openLocalSocket();
    await ready.discovery.publish({ url, key: ready.key });
    options.logger.info({ url, dataDir: options.dataDir }, "listening");
    await ready.machines.begin(held);
    return {
      url,
      key: ready.key,
      runningMachines: () => ready.machines.running(),
      machinesSettled: () => ready.machines.settled(),
      close: once((how) => stop(options, store, lock, ready, url, how?.stopMachines ?? false)),
    };
  } catch (error) {
    await parts?.keeper.close();
    await parts?.app.close();
    await parts?.closeLocal();
    await store.destroy();
    throw error;
  }
}

interface Parts {
  app: App;
  key: string;
  discovery: Discovery;
  catalog: PoolCatalog;
  creator: PoolCreator;
  machines: Machines;
  keeper: StorageKeeper;
  inFlight: InFlight;
  upgrades: Upgrades;
  setHosts(hosts: AllowedHosts): void;
  startClosing(): void;
  openLocalSocket(): Promise<void>;
  closeLocal(): Promise<void>;
}

async function assemble(options: ReadyOptions, store: Store): Promise<Parts> {
  const { worker, logger } = options;
  const states = new SavedStateCounts();
  const metrics = new Metrics(() => {
    const pools = catalog.live();
    return {
      pools: pools.length,
      states: pools.reduce((sum, pool) => sum + states.of(pool), 0),
      machines: machines.countByState(),
    };
  });
  const journal = new OperationJournal(store, logger, (kind, result) => metrics.operation(kind, result));
  await journal.settleAtStart();
  const keyring = await loadKeyring(store);
  const keys = new KeyManager(store, keyring, journal);
  const discovery = openDiscovery(options.credentialsFile);
  const key = await chooseLocalKey(discovery, keyring, keys);
  const catalog = await PoolCatalog.open(worker, store);
  const records = new IdempotencyRecords(store);
  await records.dropOld();
  const creator = new PoolCreator(worker, catalog, journal, records);
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { dataDir } = options;
  const parts = { host: worker.machines, images: worker.images, networks: worker.networks };
  const machines = await Machines.open({ ...parts, store, journal, limits, dataDir, logger });
  let hosts = new AllowedHosts("http", 0, []);
  let closing = false;
  let local: LocalSocket | null = null;
  const inFlight = new InFlight();
  const gate = new Gate(keyring, () => hosts);
  const ports = new PortServer({ gate, machines: machines.registry, scheme: schemeOf(options), limits });
  const context = {
    worker,
    logger,
    keys,
    catalog,
    creator,
    machines: machines.registry,
    machineLife: machines,
    journal,
    gate,
    limits,
    metrics,
    states,
    scheme: schemeOf(options),
    socketPath: () => local?.path ?? null,
    inFlight,
    ports,
    execs: new ExecShared(),
    isClosing: () => closing,
  };
  const app = await buildApp(context, options.tls);
  const streams = new StreamServer(context);
  const upgrades = new Upgrades(context, { streams, attachments: new AttachServer(context), ports });
  app.server.on("upgrade", (request, socket, head) => upgrades.upgrade(request, socket, head));
  const setHosts = (allowed: AllowedHosts) => {
    hosts = allowed;
  };
  const startClosing = () => {
    closing = true;
  };
  const openLocal = async () => {
    local = await openLocalSocket(app.server, options.dataDir, limits.maxConnections);
  };
  const closeLocal = async () => local?.close();
  return {
    app,
    key,
    discovery,
    catalog,
    creator,
    machines,
    keeper: new StorageKeeper({ ...machines.context, storage: worker.storage }),
    inFlight,
    upgrades,
    setHosts,
    startClosing,
    openLocalSocket: openLocal,
    closeLocal,
  };
}

async function listen(options: ServerOptions, address: ListenAddress, { app, setHosts }: Parts): Promise<string> {
  await app.listen({ host: address.host, port: address.port });
  const { port } = app.server.address() as AddressInfo;
  const names = ["localhost", "127.0.0.1", "[::1]", address.name, ...(options.allowedHosts ?? [])];
  setHosts(new AllowedHosts(schemeOf(options), port, names));
  const name = address.host === "0.0.0.0" || address.host === "::" ? "localhost" : address.name;
  return `${schemeOf(options)}://${name}:${port}`;
}

async function stop(
  options: ReadyOptions,
  store: Store,
  lock: DataFolderLock,
  parts: Parts,
  url: string,
  stopMachines: boolean,
): Promise<void> {
  parts.startClosing();
  try {
    await parts.creator.abortAll();
    await parts.machines.close({ stop: stopMachines });
    await parts.keeper.close();
    await options.worker.close();
    await parts.catalog.recordStop();
    await parts.discovery.withdraw(url);
    await parts.inFlight.drained(LAST_ANSWERS_MS);
  } finally {
    await parts.upgrades.close();
    await parts.app.close();
    await parts.closeLocal();
    await store.destroy();
    lock.release();
    options.logger.info({ url }, "stopped");
  }
}

function schemeOf(options: ServerOptions): "http" | "https" {
  return options.tls === undefined ? "http" : "https";
}

function once(action: RunningServer["close"]): RunningServer["close"] {
  let result: Promise<void> | undefined;
  return (options) => {
    result ??= action(options);
    return result;
  };
}
