import { type ArchiveLimits, defaultArchiveLimits } from "../archives/limits.ts";

/** What one worker allows; the operator's configuration, shown by every pool's description. */
export interface WorkerLimits {
  archives: ArchiveLimits;
  /** Rows of one pool. */
  rowsMax: number;
  /** Processes of one pool: each takes up to two uids of its sandbox's range, besides those of the saved states. */
  processesMax: number;
  /** Open pools of all owners together. */
  poolsMax: number;
  /** Sandboxes of one pool. */
  shardsMax: number;
  /** Body of one step, reset or call. */
  requestBytes: number;
  /** All rows of one reply together; a row's share is this divided by n. */
  replyBytes: number;
  /** One row's line, however few rows there are. */
  messageBytes: number;
  /** Processes and threads of one environment. */
  processes: number;
  workspaceInodes: number;
  /** A dependency layer's download. */
  layerDownloadBytes: number;
  layerBuildTimeoutMs: number;
  /** Free space below which nothing is installed or unpacked. */
  freeDiskBytes: number;
}

const MiB = 2 ** 20;
const GiB = 2 ** 30;

export const defaultLimits: WorkerLimits = {
  archives: defaultArchiveLimits,
  rowsMax: 65_536,
  processesMax: 10_000,
  poolsMax: 64,
  shardsMax: 256,
  requestBytes: 256 * MiB,
  replyBytes: GiB,
  messageBytes: 16 * MiB,
  processes: 256,
  workspaceInodes: 65_536,
  layerDownloadBytes: 16 * GiB,
  layerBuildTimeoutMs: 30 * 60_000,
  freeDiskBytes: GiB,
};
