import type { WorkerLimits } from "./pools/limits.ts";

export interface WorkerOptions {
  /** Where archives and layers are kept; made if it is missing. */
  dataDir: string;
  /** The agent's binary. Default: SANDPOOL_AGENT, else the release build of this checkout, else beside the package. */
  agentPath?: string;
  /** Members left out have their defaults. */
  limits?: Partial<WorkerLimits>;
  /** Hosts of package indexes and package files that may have private addresses: a mirror in the operator's own network. */
  privateHosts?: readonly string[];
  /** Addresses of private networks that machines may reach: `address`, `address/prefix` or `address:port`. */
  machinesMayReach?: readonly string[];
  /**
   * Whether a client may name the driver that isolates nothing; default false. Whoever may, runs code as this process's user.
   */
  allowUnisolated?: boolean | undefined;
  /** Warnings worth one line in the server's log. */
  warn?: (message: string) => void;
}
