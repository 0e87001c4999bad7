import type { ExecOutcome } from "./machines/exec/outcome.ts";

/** Codes the client makes itself; they and those of the server stand in docs/errors.md. */
export type ClientErrorCode =
  | "bad_credentials_file"
  | "bad_environment"
  | "connection_failed"
  | "deadline_passed"
  | "invalid_argument"
  | "no_key"
  | "no_server_configured"
  | "pool_busy"
  | "pool_closed"
  | "protocol_violation"
  | "row_failed"
  | "vectorized_unsupported";

export interface SandpoolErrorOptions {
  hint?: string | undefined;
  details?: Readonly<Record<string, unknown>> | undefined;
  status?: number | undefined;
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/**
 * The root of every error of this client. `code` is stable, `message` names what was received and expected, `hint` what to do.
 *
 * @example
 * try { await pool.step(actions); } catch (error) {
 *   if (error instanceof SandpoolError && error.code === "pool_lost") …
 * }
 */
export class SandpoolError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;
  /** The HTTP status, when the server answered. */
  readonly status: number | undefined;
  /** When the server said that the same request may succeed later. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: string, message: string, options: SandpoolErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.hint = options.hint;
    this.details = options.details ?? {};
    this.status = options.status;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }

  /** Code, message, hint and details as the wire has them. */
  toJSON(): { code: string; message: string; hint: string | null; details: Readonly<Record<string, unknown>> } {
    return { code: this.code, message: this.message, hint: this.hint ?? null, details: this.details };
  }
}

/** The server could not be reached, or the connection broke and repeating the same request did not help. */
export class ConnectionError extends SandpoolError {
  /** False when the request surely never reached the server. */
  readonly mayHaveArrived: boolean;

  constructor(message: string, options: SandpoolErrorOptions & { mayHaveArrived?: boolean } = {}) {
    super("connection_failed", message, options);
    this.mayHaveArrived = options.mayHaveArrived ?? true;
  }
}

/** Fewer rows were ready, or no row was free, when a `timeoutMs` passed (`deadline_passed`). Nothing is lost: ask again. */
export class NotReadyError extends SandpoolError {
  constructor(message: string, options: SandpoolErrorOptions = {}) {
    super("deadline_passed", message, options);
  }
}

/** A value given to this client was refused before anything was sent. */
export class ArgumentError extends SandpoolError {
  constructor(message: string, options: SandpoolErrorOptions = {}) {
    super("invalid_argument", message, options);
  }
}

/** The key was missing, wrong or revoked (`unauthorized`). */
export class AuthenticationError extends SandpoolError {}

/** The pool has ended: it was closed, its lease ran out, or its sandbox or server is gone (`pool_closed`, `pool_lost`). */
export class PoolEndedError extends SandpoolError {}

/** The object does not exist, or belongs to somebody else (404). */
export class NotFoundError extends SandpoolError {}

/** An environment failed while its pool was made (`environment_failed`); `details` has row, kind and stderr_tail. */
export class EnvironmentError extends SandpoolError {}

/** What could not be copied, and what stood in the way: `{"threads": 3, "names": ["openblas"]}`, in words `threads: 3 (openblas)`. */
export interface UncopiedSource {
  /** A row, or null where it was a saved state. */
  row: number | null;
  /** The id of a saved state, or null. */
  state: string | null;
  blockers: readonly Readonly<Record<string, unknown>>[];
  /** Comes from the sandbox in part: escape it before a terminal. */
  text: string;
}

/** Rows or states could not be copied, or the program of a new pool cannot be forked (`fork_unsupported`). Nothing has changed. */
export class ForkUnsupportedError extends SandpoolError {
  /** Empty where it is about a pool's program. */
  get sources(): UncopiedSource[] {
    const { sources } = this.details;
    if (!Array.isArray(sources)) return [];
    return sources.map((source: Partial<UncopiedSource>) => ({
      row: source.row ?? null,
      state: source.state ?? null,
      blockers: source.blockers ?? [],
      text: source.text ?? "",
    }));
  }
}

/** Saved states ended by themselves, or with their sandbox (`state_lost`); `details.states` has their ids. Nothing has changed. */
export class StateLostError extends SandpoolError {}

/** The call does not fit the state that the machine is in; the message names both (`machine_state`). */
export class MachineStateError extends SandpoolError {}

/** The machine ended, or was deleted, while the call ran (`machine_lost`). */
export class MachineLostError extends SandpoolError {}

/** A program inside a machine could not be started, or `ExecOutcome.check` found that it failed (`exec_failed`). */
export class ExecFailedError extends SandpoolError {
  /** What the program left; null if it never started: then `details` has `errno` and `what`. */
  readonly outcome: ExecOutcome | null;

  constructor(code: string, message: string, options: SandpoolErrorOptions & { outcome?: ExecOutcome } = {}) {
    super(code, message, options);
    this.outcome = options.outcome ?? null;
  }
}

/** Builds the typed error of a server's `{"error": …}` body. */
export function errorFromWire(status: number, body: unknown, retryAfterSeconds?: number): SandpoolError {
  const error = (body as { error?: Record<string, unknown> } | null)?.error;
  if (typeof error?.code !== "string" || typeof error.message !== "string") {
    return new SandpoolError("protocol_violation", `The server answered status ${status} without an error body.`, {
      status,
      hint: "Check that the URL is that of a Sandpool server and that no proxy answers in its place.",
    });
  }
  const options: SandpoolErrorOptions = {
    status,
    retryAfterSeconds,
    hint: typeof error.hint === "string" ? error.hint : undefined,
    details: typeof error.details === "object" && error.details !== null ? { ...error.details } : undefined,
  };
  if (error.code === "environment_failed") return new EnvironmentError(error.code, error.message, options);
  if (["pool_closed", "pool_lost"].includes(error.code)) return new PoolEndedError(error.code, error.message, options);
  if (error.code === "exec_failed") return new ExecFailedError(error.code, error.message, options);
  if (error.code === "machine_state") return new MachineStateError(error.code, error.message, options);
  if (error.code === "machine_lost") return new MachineLostError(error.code, error.message, options);
  if (error.code === "fork_unsupported") return new ForkUnsupportedError(error.code, error.message, options);
  if (error.code === "state_lost") return new StateLostError(error.code, error.message, options);
  if (status === 401) return new AuthenticationError(error.code, error.message, options);
  if (status === 404) return new NotFoundError(error.code, error.message, options);
  return new SandpoolError(error.code, error.message, options);
}
