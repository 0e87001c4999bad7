import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";
import { encodeValue } from "../values/encode.ts";
import { isValueObject, type ValueObject } from "../values/types.ts";

export interface PoolProgress {
  phase: "upload" | "layer" | "template" | "start" | "reset";
  done: number;
  total: number;
}

/** What a pool is made of; everything but `n` has the server's default. */
export interface PoolOptions {
  /** Rows of the pool. */
  n: number;
  seed?: number | null;
  autoreset?: null | "same_step" | "next_step";
  seeds?: "derived" | "continue";
  /** `rows`: a failed row is an entry of `errors`; `raise`: the call throws `RowsFailedError`. */
  errors?: "rows" | "raise";
  /** Warn through `process.emitWarning` at the first failure of each kind. Default true. */
  warn?: boolean;
  start?: "auto" | "fork" | "spawn";
  isolation?: string;
  shards?: number | "auto";
  envsPerProcess?: number | "auto";
  /** The Python interpreter inside the image. */
  python?: string;
  /** Environment variables of the programs. */
  env?: Readonly<Record<string, string>>;
  /** One object for all rows, or a list of `n`. */
  config?: ValueObject | readonly ValueObject[] | null;
  image?: string;
  network?: boolean;
  /** Per environment: bytes, or text such as `"2GiB"`. */
  memory?: number | string;
  workspace?: number | string;
  stepTimeoutSeconds?: number;
  resetTimeoutSeconds?: number;
  startTimeoutSeconds?: number;
  callTimeoutSeconds?: number;
  inFlight?: number | null;
  firstReset?: boolean;
  branching?: boolean;
  /** Seconds without a request after which the server closes the pool; this object keeps it alive meanwhile. */
  leaseSeconds?: number;
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

/** Refuses a misspelt member, which would silently be as if it were not given. */
export function refuseUnknown(call: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new ArgumentError(`${call} has no option ${unknown}; expected one of ${known.join(", ")}.`);
}

/** Checks null, one plain object for all rows, or a list of plain objects and nulls. */
export function checkObjects(name: string, value: unknown): void {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  const place = items.findIndex((item) => item !== null && !isValueObject(item));
  if (place === -1) return;
  const where = Array.isArray(value) ? `${name}[${place}]` : name;
  throw new ArgumentError(`${where} is ${describe(items[place])}; expected a plain object or null.`);
}

function encodeConfig(config: NonNullable<PoolOptions["config"]> | null, n: number): unknown {
  checkObjects("config", config);
  if (Array.isArray(config) && config.length !== n) {
    throw new ArgumentError(`config has ${config.length} items; expected one object, or a list of n = ${n}.`);
  }
  return encodeValue(config, "config");
}
