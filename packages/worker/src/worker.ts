import type {
  BatchSummary,
  CallRequest,
  Capabilities,
  CreatePoolRequest,
  ForkRequest,
  PoolDescription,
  PoolStatus,
  ResetRequest,
  RestoreRequest,
  SaveRequest,
  StateList,
} from "@sandpool/protocol";
import type { ImageStore } from "./images/contract.ts";
import type { MachineHost } from "./machines/contract.ts";
import type { Networks } from "./network/contract.ts";
import type { StreamConnection, StreamOptions, StreamSink } from "./pools/stream/contract.ts";
import type { Storage } from "./storage/contract.ts";

/** What one host can run. The server talks to this interface only. */
export interface Worker {
  readonly archives: ArchiveStore;
  readonly pools: PoolRegistry;
  readonly machines: MachineHost;
  readonly images: ImageStore;
  readonly networks: Networks;
  readonly storage: Storage;
  /** What this host can do, driver by driver, with the reason where it cannot; what `sandpool doctor` prints. */
  capabilities(): Promise<Capabilities>;
  /** Closes every pool: nothing of one is left, no process, mount, cgroup or file. Lets go of machines, which run on. */
  close(): Promise<void>;
}

/** Content-addressed archives, visible per owner. */
export interface ArchiveStore {
  has(owner: string, sha256: string): Promise<boolean>;
  /** Recomputes the hash while reading; refuses and removes what does not match. */
  put(
    owner: string,
    sha256: string,
    body: NodeJS.ReadableStream,
  ): Promise<{ sha256: string; bytes: number; files: number }>;
}

export interface PoolRegistry {
  /** `rawBody` is the request as it came: free-form members are forwarded from it, never re-serialised. Rolls back whole on failure or abort. */
  create(owner: string, request: CreatePoolRequest, rawBody: Buffer, options: CreateOptions): Promise<Pool>;
  /** By id or name. Throws `pool_not_found` for another owner's pool too. */
  get(owner: string, idOrName: string): Pool;
  list(owner: string): Pool[];
}

export interface CreateOptions {
  signal: AbortSignal;
  onProgress?: (progress: { phase: "layer" | "template" | "start" | "reset"; done: number; total: number }) => void;
}

export type BatchEncoding = "json" | "binary";

/** A reply ready to be written: the chunks one after another are the HTTP body. */
export interface EncodedBatch {
  contentType: string;
  chunks: Buffer[];
  length: number;
  /**
   * Each caller may call it once, when it will not read the chunks any more: when all did and the next batch has begun, their memory is used
   * again. Where a caller does not, the chunks stay what they are.
   */
  release?: () => void;
  /** For the metrics. */
  summary?: BatchSummary;
}

export interface StepInput {
  seq: number;
  where: readonly boolean[] | readonly number[] | null;
  /** The request as it came, in either encoding; a repeated one is known by it. */
  rawBody: Buffer;
  /** `json`: they are in `rawBody`; `array`: `data` has `count` C-order items of `dtype` and `shape`. */
  actions:
    | { kind: "json"; count: number }
    | { kind: "array"; count: number; dtype: string; shape: number[]; data: Buffer };
}

export interface Pool {
  readonly id: string;
  readonly name: string | null;
  readonly n: number;
  describe(): PoolDescription;
  status(options: { memory: boolean }): Promise<PoolStatus>;
  step(input: StepInput, encoding: BatchEncoding): Promise<EncodedBatch>;
  reset(request: ResetRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch>;
  call(request: CallRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch>;
  /** Makes target rows live copies of source rows. @throws `fork_unsupported`; then nothing has changed and the number is free */
  fork(request: ForkRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch>;
  /** Keeps copies of rows; the reply is always JSON. @throws `fork_unsupported`, `quota`, `agent_failed`; then nothing was kept and the number is free */
  save(request: SaveRequest, rawBody: Buffer): Promise<EncodedBatch>;
  /** Makes target rows live copies of saved states. @throws `state_not_found`, `state_lost`, `fork_unsupported`; then nothing has changed and the number is free */
  restore(request: RestoreRequest, rawBody: Buffer, encoding: BatchEncoding): Promise<EncodedBatch>;
  /** Ends saved states, null: all; gives the ids that were dropped. */
  drop(ids: readonly string[] | null): Promise<string[]>;
  /** Every saved state; `memory` samples what each has. */
  states(options: { memory: boolean }): Promise<StateList>;
  observations(encoding: BatchEncoding): Promise<EncodedBatch>;
  logs(row: number): Promise<Buffer>;
  /**
   * Opens a session of the pool's stream or takes it up again; what the client does not have is sent at once.
   * @throws `pool_closed`, `pool_busy` while another session has the stream, `invalid_request`
   */
  openStream(options: StreamOptions, sink: StreamSink): StreamConnection;
  /** Extends the lease; every other call does too. */
  keepAlive(): void;
  close(): Promise<void>;
}
