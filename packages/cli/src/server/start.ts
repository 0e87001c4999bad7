import type { ServerOptions } from "@sandpool/server";

export interface StartOptions {
  dataDir: string;
  listen: string;
  insecure: boolean;
  tls: { cert: Buffer; key: Buffer } | null;
  /** Where url and key are left for clients: `null` for nowhere; left out for the account's own place. */
  credentialsFile?: null;
  /** Package indexes with private addresses that dependency builds may reach. */
  privateHosts?: readonly string[];
  /** Addresses of private networks that machines may reach. */
  machinesMayReach?: readonly string[];
  /** Whether clients may name the driver that isolates nothing and so run code as this user. */
  allowUnisolated: boolean;
  /** Further names for the Host header. */
  allowedHosts?: readonly string[];
  /** Machines of one owner. */
  machines?: number;
  /** Seconds between two saves of a running machine's disk; 0: only at a stop. */
  diskSaveInterval?: number;
  logger: ServerOptions["logger"];
}

export interface RunningServer {
  url: string;
  key: string;
  /** Resolves when every machine of an earlier server is taken over, or its end is known. */
  settled: () => Promise<void>;
  /** Machines that run on when the server ends now. */
  runningMachines: () => { id: string; name: string }[];
  /** Closes every pool, then the server; machines run on, or are stopped with their disks saved. */
  stop: (options?: { stopMachines?: boolean }) => Promise<void>;
}

/** Starts a worker and a server in this process. The packages are loaded here, so that other commands start without them. */
export async function startServer(options: StartOptions): Promise<RunningServer> {
  const [{ createServer }, { createWorker }] = await Promise.all([
    import("@sandpool/server"),
    import("@sandpool/worker"),
  ]);
  const {
    privateHosts = [],
    machinesMayReach = [],
    allowUnisolated,
    tls,
    machines,
    diskSaveInterval,
    ...rest
  } = options;
  const { dataDir, logger } = options;
  const server = await createServer({
    ...rest,
    ...(tls && { tls }),
    limits: {
      ...(machines === undefined ? {} : { machinesPerOwner: machines }),
      ...(diskSaveInterval === undefined ? {} : { diskSaveIntervalMs: diskSaveInterval * 1000 }),
    },
    worker: () =>
      createWorker({
        ...{ dataDir, privateHosts, machinesMayReach, allowUnisolated },
        warn: (message) => logger.warn(message),
      }),
  });
  return {
    url: server.url,
    key: server.key,
    settled: () => server.machinesSettled(),
    runningMachines: () => server.runningMachines(),
    stop: (how) => server.close(how),
  };
}
