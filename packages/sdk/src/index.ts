export type {
  Capabilities,
  Collected,
  CreatedKey,
  ExecStarted,
  FileChange,
  FileEntry,
  Image,
  KeyDescription,
  ListedExec,
  Machine,
  MachineList,
  MachineSizeInput,
  PoolReply,
  PortEntry,
  PortLink,
  RowStatus,
  Storage,
} from "@sandpool/protocol";
export { packEnvironment } from "./archive/environment.ts";
export type { Archive } from "./archive/pack.ts";
export { Sandpool, type SandpoolOptions } from "./client.ts";
export {
  ArgumentError,
  AuthenticationError,
  type ClientErrorCode,
  ConnectionError,
  EnvironmentError,
  ExecFailedError,
  ForkUnsupportedError,
  MachineLostError,
  MachineStateError,
  NotFoundError,
  NotReadyError,
  PoolEndedError,
  SandpoolError,
  StateLostError,
  type UncopiedSource,
} from "./errors.ts";
export { escapeControl } from "./escape.ts";
export { credentialsPath, discoverEndpoint, type Endpoint } from "./http/credentials.ts";
export type { ImageProgress, Images, MakeImageOptions } from "./images/images.ts";
export type { MachineFate } from "./machines/create.ts";
export type { Input, RunOptions, StreamOptions } from "./machines/exec/execs.ts";
export type { ExecOptions } from "./machines/exec/options.ts";
export { ExecOutcome, type OutputCounts } from "./machines/exec/outcome.ts";
export type { ExecChunk, ExecStream } from "./machines/exec/stream.ts";
export type { Content, FileOptions, MachineFiles, ReadOptions, WriteOptions } from "./machines/files/files.ts";
export type { UnpackedTree } from "./machines/files/unpackTree.ts";
export type { Language } from "./machines/languages.ts";
export type { Machines } from "./machines/machines.ts";
export type { MachineOptions, MachineProgress } from "./machines/options.ts";
export type { ReadyOptions } from "./machines/ready.ts";
export { Sandbox } from "./machines/sandbox.ts";
export type { PortAddress } from "./machines/url.ts";
export type { Action, ActionColumn, Actions } from "./pool/actions.ts";
export type { CallOptions, ResetOptions } from "./pool/batched.ts";
export type { ForkOptions, ForkResult, RestoreOptions } from "./pool/branched.ts";
export type { PoolOptions, PoolProgress } from "./pool/options.ts";
export type { Reseed } from "./pool/pairs.ts";
export type { RowOptions, Seeds } from "./pool/requests.ts";
export type { CallResult, ResetResult, RowErrors, StepResult } from "./pool/results.ts";
export { type ConnectOptions, type ReceiveOptions, RLPool } from "./pool/rlpool.ts";
export { type RowError, type RowErrorKind, RowsFailedError } from "./pool/rowErrors.ts";
export type { SavedState } from "./pool/savedState.ts";
export type { Where, WhereOption } from "./pool/selection.ts";
export { type Percentiles, PoolTiming, percentiles, type TimingSummary } from "./pool/timing.ts";
export type { ResetChoice } from "./stream/entries.ts";
export { Environment, type RowReset, type RowStep } from "./stream/environment.ts";
export type { ReceivedResult, RowOperation } from "./stream/results.ts";
export type { WaitLimits } from "./stream/waiting.ts";
export { decodeValue } from "./values/decode.ts";
export type { ArrayData } from "./values/dtypes.ts";
export { encodeValue } from "./values/encode.ts";
export { NdArray, type NestedList } from "./values/ndarray.ts";
export { GraphInstance, isValueObject, Tuple, type Value, type ValueObject } from "./values/types.ts";
