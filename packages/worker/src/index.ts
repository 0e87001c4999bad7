export type { ArchiveLimits } from "./archives/limits.ts";
export { createWorker } from "./create.ts";
export { DriverError, type DriverProbe } from "./drivers/driver.ts";
export type { MachineDriverName, MachineExit, MachineProbe, SavedDisk } from "./drivers/machine.ts";
export type * from "./images/contract.ts";
export type * from "./machines/contract.ts";
export type * from "./network/contract.ts";
export type { WorkerOptions } from "./options.ts";
export { defaultLimits, type WorkerLimits } from "./pools/limits.ts";
export type {
  StreamConnection,
  StreamMessage,
  StreamOptions,
  StreamRequest,
  StreamSink,
  StreamSummary,
} from "./pools/stream/contract.ts";
export type * from "./storage/contract.ts";
export type {
  ArchiveStore,
  BatchEncoding,
  CreateOptions,
  EncodedBatch,
  Pool,
  PoolRegistry,
  StepInput,
  Worker,
} from "./worker.ts";
