import { ArgumentError } from "../errors.ts";
import { encodeValue } from "../values/encode.ts";
import type { ValueObject } from "../values/types.ts";
import { checkObjects } from "./requests.ts";

/** How far a creation is: `done` of `total` steps of a phase, bytes in `upload`. */
export interface PoolProgress {
  phase: "upload" | "layer" | "template" | "start" | "reset";
  done: number;
  total: number;
}

/** What a pool is made of; everything but `n` has the server's default, given here. */
export interface PoolOptions {
  /** Rows of the pool. */
  n: number;
  /** The pool's seed, 0 to 2^53 - 1. Default: random, shown in the status. */
  seed?: number | null;
  /** What happens after the end of an episode, in the same request. Default null: nothing. `auto`: a vectorised environment's own mode, `same_step` for any other. */
  autoreset?: null | "same_step" | "next_step" | "auto";
  /** What a reset without a seed sends: one `derived` (default) from the pool's seed, row and episode, or none (`continue`). */
  seeds?: "derived" | "continue";
  /** `rows` (default): a failed row is an entry of `errors`; `raise`: the call throws `RowsFailedError`. */
  errors?: "rows" | "raise";
  /** Warn through `process.emitWarning` at the first failure of each kind, and of what the server warns of. Default true. */
  warn?: boolean;
  /** How processes start. Default `auto`: by fork, where the program can. */
  start?: "auto" | "fork" | "spawn";
  /** Default `namespace`. */
  isolation?: string;
  /** Sandboxes that share the rows. Default `auto`: one, so that any row can be copied onto any other, up to 1,024 processes; about one a core above, or with `branching: false`. */
  shards?: number | "auto";
  /** Rows that share a process. Default 1; `auto` measures a step and chooses, see `description.packing`. */
  envsPerProcess?: number | "auto";
  /** The Python interpreter inside the image. Default `/usr/bin/python3`. */
  python?: string;
  /** Environment variables of the programs. */
  env?: Readonly<Record<string, string>>;
  /** Handed to `make(config)` in the environment: one object for all rows, or a list of `n`. */
  config?: ValueObject | readonly (ValueObject | null)[] | null;
  /** Default `host`. */
  image?: string;
  /** Default false. */
  network?: boolean;
  /** Of one environment: bytes, or text such as `"2GiB"` (the default). */
  memory?: number | string;
  /** Of one environment: bytes, or text such as `"1GiB"` (the default). */
  workspace?: number | string;
  /** Of one row. Default 30. */
  stepTimeoutSeconds?: number;
  /** Of one row. Default 60. */
  resetTimeoutSeconds?: number;
  /** Of one row. Default 120. */
  startTimeoutSeconds?: number;
  /** Of one row. Default 30. */
  callTimeoutSeconds?: number;
  /** Rows that run at once. Default null: all. */
  inFlight?: number | null;
  /** Default true; false stops after the start, and `initialObservations` is null. */
  firstReset?: boolean;
  /** Default true; false drops every capability in the environments, which can then not be copied, and divides the pool over the cores. */
  branching?: boolean;
  /** Seconds without a request after which the server closes the pool; this object keeps it alive meanwhile. Default 600. */
  leaseSeconds?: number;
  /** Another way to address the pool: `[a-z][a-z0-9-]{0,39}`. */
  name?: string | null;
  onProgress?: (progress: PoolProgress) => void;
  /** Aborting rolls the creation back. */
  signal?: AbortSignal;
}

const WIRE_NAMES = {
  n: "n",
  seed: "seed",
  autoreset: "autoreset",
  seeds: "seeds",
  start: "start",
  isolation: "isolation",
  shards: "shards",
  envsPerProcess: "envs_per_process",
  python: "python",
  env: "env",
  image: "image",
  network: "network",
  memory: "memory",
  workspace: "workspace",
  stepTimeoutSeconds: "step_timeout",
  resetTimeoutSeconds: "reset_timeout",
  startTimeoutSeconds: "start_timeout",
  callTimeoutSeconds: "call_timeout",
  inFlight: "in_flight",
  firstReset: "first_reset",
  branching: "branching",
  leaseSeconds: "lease",
  name: "name",
} as const satisfies Partial<Record<keyof PoolOptions, string>>;

const LOCAL_NAMES = new Set(["errors", "warn", "config", "onProgress", "signal"]);

/** The members of the create request, without the archive. Refuses unknown names, so a misspelt limit is never silently ignored. */
export function toCreateRequest(options: PoolOptions): Record<string, unknown> {
  if (!Number.isSafeInteger(options.n) || options.n < 1) {
    throw new ArgumentError(`n is ${String(options.n)}; expected a whole number of at least 1.`);
  }
  checkPacking(options);
  const request: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || LOCAL_NAMES.has(name)) continue;
    const wireName = Object.hasOwn(WIRE_NAMES, name) ? WIRE_NAMES[name as keyof typeof WIRE_NAMES] : undefined;
    if (wireName === undefined) {
      throw new ArgumentError(
        `The pool option ${name} is unknown; expected one of ${Object.keys(WIRE_NAMES).join(", ")}.`,
      );
    }
    request[wireName] = value;
  }
  if (options.config !== undefined) request.config = encodeConfig(options.config, options.n);
  return request;
}

function checkPacking({ n, envsPerProcess }: PoolOptions): void {
  if (typeof envsPerProcess !== "number" || envsPerProcess <= n) return;
  throw new ArgumentError(`envsPerProcess: received ${envsPerProcess}; the pool has ${n} rows.`, {
    hint: `Pass an integer from 1 to ${n}, or "auto".`,
    details: { received: envsPerProcess, n },
  });
}

function encodeConfig(config: NonNullable<PoolOptions["config"]> | null, n: number): unknown {
  checkObjects("config", config);
  if (Array.isArray(config) && config.length !== n) {
    throw new ArgumentError(`config has ${config.length} items; expected one object, or a list of n = ${n}.`);
  }
  return encodeValue(config, "config");
}
