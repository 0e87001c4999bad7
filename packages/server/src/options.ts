import type { Worker } from "@sandpool/worker";
import type { Logger } from "pino";

/** What `createServer` needs. */
export interface ServerOptions {
  /** A function is called once the data folder is locked: a worker cleans up after a dead server, so it must never start beside a living one. */
  worker: Worker | (() => Promise<Worker>);
  /** Folder of the store and the lock; made with mode 0700 if missing. */
  dataDir: string;
  /** `host:port`, `[address]:port` or a port alone; port 0 picks a free one. Default `127.0.0.1:7070`. */
  listen?: string;
  /** PEM texts. Required beyond loopback unless `insecure`. */
  tls?: { cert: string | Buffer; key: string | Buffer };
  /** Allows plain HTTP beyond loopback. */
  insecure?: boolean;
  /** Further exact names for the Host header, such as a proxy's. */
  allowedHosts?: readonly string[];
  logger: Logger;
  /** Where clients find url and key. Default: the calling user's own file; null writes none. */
  credentialsFile?: string | null;
  limits?: Partial<ServerLimits>;
}

/** Every bound of the HTTP side. Times in milliseconds, sizes in bytes. */
export interface ServerLimits {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How long a body may stand still. */
  bodyIdleMs: number;
  keepAliveMs: number;
  anonymousKeepAliveMs: number;
  connectionsCheckMs: number;
  maxConnections: number;
  maxHeaderBytes: number;
  smallBodyBytes: number;
  createBodyBytes: number;
  batchBodyBytes: number;
  stepBodyBytes: number;
  archiveBytes: number;
  /** Of a stream's results: beyond it, nothing more is read from that client. */
  streamUnsentBytes: number;
  jsonDepth: number;
  heartbeatMs: number;
  /** Of one owner, whatever their state. */
  machinesPerOwner: number;
  /** Undefined: one for each of the host's cores, two at least. */
  machineStartsAtOnce?: number;
  /** Creations that may wait for their turn; more are refused with `Retry-After`. */
  machineQueue: number;
  /** Of a running machine's disk; 0: only when it is stopped. */
  diskSaveIntervalMs: number;
  /** What programs have between TERM and KILL when their machine stops. */
  machineStopMs: number;
  /** How often machines are compared with what the host holds. */
  reconcileMs: number;
  /** With less free, new work is refused. */
  diskLowWaterBytes: number;
  memoryLowWaterBytes: number;
  /** What archives, layers and images that nothing uses may take together before the least recently used go by themselves. */
  storageCapBytes: number;
}

export const DEFAULT_LIMITS: ServerLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 15 * 60_000,
  bodyIdleMs: 30_000,
  keepAliveMs: 15 * 60_000,
  anonymousKeepAliveMs: 5_000,
  connectionsCheckMs: 1_000,
  maxConnections: 2_048,
  maxHeaderBytes: 16_384,
  smallBodyBytes: 64 * 1024,
  createBodyBytes: 16 * 2 ** 20,
  batchBodyBytes: 64 * 2 ** 20,
  stepBodyBytes: 256 * 2 ** 20,
  archiveBytes: 4 * 2 ** 30,
  streamUnsentBytes: 64 * 2 ** 20,
  jsonDepth: 64,
  heartbeatMs: 5_000,
  machinesPerOwner: 50,
  machineQueue: 256,
  diskSaveIntervalMs: 300_000,
  machineStopMs: 5_000,
  reconcileMs: 60_000,
  diskLowWaterBytes: 2 * 2 ** 30,
  memoryLowWaterBytes: 256 * 2 ** 20,
  storageCapBytes: 50 * 2 ** 30,
};
