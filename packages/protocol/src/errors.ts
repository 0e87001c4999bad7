/** What a code answers with over HTTP (null: it never crosses HTTP) and what it means. */
export interface ErrorMeaning {
  readonly status: number | null;
  readonly meaning: string;
}

/** Every error code of Sandpool. `docs/errors.md` is compared with this table by a test. */
export const ERROR_CODES = {
  invalid_request: { status: 400, meaning: "A member of the request is missing, unknown or outside its range." },
  archive_hash_mismatch: { status: 400, meaning: "The uploaded bytes do not have the hash in the address." },
  file_hash_mismatch: {
    status: 400,
    meaning: "The bytes for a file do not have the announced hash; nothing was written.",
  },
  archive_invalid: {
    status: 400,
    meaning: "The archive is not a tar.zst of regular files, folders and inner links, or passes a limit when unpacked.",
  },
  unauthorized: { status: 401, meaning: "No key, or one that this server does not know." },
  forbidden: { status: 403, meaning: "The key is valid but may not do this." },
  host_not_allowed: { status: 403, meaning: "The Host or Origin header is not on this server's exact list." },
  permission_denied: { status: 403, meaning: "Inside the machine, the user may not do this." },
  not_found: { status: 404, meaning: "No such route or object." },
  pool_not_found: { status: 404, meaning: "No pool of this owner has that id or name." },
  archive_not_found: { status: 404, meaning: "The archive has not been uploaded by this owner." },
  key_not_found: { status: 404, meaning: "No key of this owner has that id." },
  image_not_found: { status: 404, meaning: "The image is not on this host." },
  state_not_found: { status: 404, meaning: "The pool has no saved state of that id: never, or no longer." },
  machine_not_found: { status: 404, meaning: "No machine of this owner has that id or name." },
  exec_not_found: { status: 404, meaning: "The machine has no exec of that id: never, or no longer." },
  file_not_found: { status: 404, meaning: "There is no such path inside the machine." },
  method_not_allowed: { status: 405, meaning: "The route exists, but not with this method." },
  request_timeout: { status: 408, meaning: "The request did not arrive completely within its time." },
  conflict: { status: 409, meaning: "The request contradicts what already exists." },
  name_taken: { status: 409, meaning: "A live pool or machine of this owner already has that name." },
  pool_busy: { status: 409, meaning: "The pool is still handling another batch." },
  pool_sequence: {
    status: 409,
    meaning: "The batch number is not the next one, nor the last one with the same request.",
  },
  machine_state: { status: 409, meaning: "The call does not fit the state the machine is in; the message names both." },
  file_exists: { status: 409, meaning: "The path exists already inside the machine." },
  image_in_use: { status: 409, meaning: "Machines still use the image; the details name them." },
  driver_unavailable: {
    status: 409,
    meaning: "This host cannot run the asked isolation; the hint says what is missing.",
  },
  pool_closed: { status: 410, meaning: "The pool was closed: by a delete, its lease, or the end of the server." },
  pool_lost: { status: 410, meaning: "The pool ended with its sandbox or its server, not by a close." },
  state_lost: { status: 410, meaning: "The saved state ended by itself or with its sandbox; the details say which." },
  machine_lost: {
    status: 410,
    meaning: "The machine ended while the call ran, or was deleted; the details say which.",
  },
  body_too_large: { status: 413, meaning: "The body is larger than the route accepts." },
  archive_too_large: { status: 413, meaning: "The archive, packed or unpacked, is larger than the limit." },
  unsupported_media_type: { status: 415, meaning: "The route does not accept this content type or encoding." },
  range_invalid: { status: 416, meaning: "The file has no byte of the asked range." },
  environment_failed: { status: 422, meaning: "An environment could not start or be reset during creation." },
  dependency_failed: { status: 422, meaning: "The environment's dependencies could not be installed." },
  fork_unsupported: {
    status: 422,
    meaning: "The program, a row or a saved state cannot be copied; the details list the blockers.",
  },
  packing_unsupported: {
    status: 422,
    meaning: "The program cannot hold several rows in one process; the message says what stands in the way.",
  },
  vectorized_unsupported: {
    status: 422,
    meaning: "The vectorised environment cannot do what was asked; the message names its class and what is possible.",
  },
  exec_failed: {
    status: 422,
    meaning: "The program could not be started inside the machine; the details say what failed.",
  },
  file_invalid: {
    status: 422,
    meaning: "The path, or what is there, does not fit the call; the details have path and errno.",
  },
  image_failed: { status: 422, meaning: "The image could not be built, pulled or imported." },
  upgrade_required: { status: 426, meaning: "The route is a WebSocket; the request asked for no upgrade." },
  quota: {
    status: 429,
    meaning: "The owner, or what is asked for, uses all it may use; the details have the figures.",
  },
  headers_too_large: { status: 431, meaning: "The request's headers are larger than the limit." },
  creation_aborted: { status: 499, meaning: "The caller went away before the creation ended; it was rolled back." },
  internal: { status: 500, meaning: "A fault of Sandpool itself; the request id finds it in the server's log." },
  agent_failed: { status: 502, meaning: "The agent inside a sandbox answered with a fault or not in its protocol." },
  port_refused: { status: 502, meaning: "Nothing inside the machine listens on that port." },
  server_closing: { status: 503, meaning: "The server is shutting down." },
  deadline_passed: { status: 504, meaning: "The operation did not end before its deadline." },
  disk_full: { status: 507, meaning: "The host has not enough free disk space." },
  memory_short: { status: 507, meaning: "The host has not enough free memory for what was asked." },
  data_folder_locked: { status: null, meaning: "Another server already uses this data folder." },
  data_folder_unknown: { status: null, meaning: "The data folder was written by a newer version." },
  listen_refused: { status: null, meaning: "The server will not listen on this address as asked." },
  credentials_refused: { status: null, meaning: "The credentials file or its folder is not safe to write or read." },
  connection_failed: { status: null, meaning: "The client could not reach the server." },
  invalid_argument: { status: null, meaning: "The client refused an argument; nothing was sent." },
  bad_environment: { status: null, meaning: "The environment given has no program, or holds what an archive cannot." },
  no_server_configured: { status: null, meaning: "No server was named, and the credentials file names none." },
  no_key: { status: null, meaning: "There is no key for the server that was named." },
  bad_credentials_file: {
    status: null,
    meaning: "The credentials file cannot be read, or is not what the server writes.",
  },
  protocol_violation: {
    status: null,
    meaning: "A reply is not what the protocol says: another program or version answers.",
  },
  row_failed: { status: null, meaning: 'Rows of a batch failed in a pool with `errors="raise"`.' },
  not_in_this_version: { status: null, meaning: "The client does not have this option or call yet." },
  not_permitted: { status: null, meaning: "The command may not end another user's server." },
  interrupted: { status: null, meaning: "A signal ended the command before it was done." },
  usage: { status: null, meaning: "The command line is wrong; the exit code is 2." },
} as const satisfies Record<string, ErrorMeaning>;

/** One of the codes in {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** `error` in an HTTP reply, in the last line of a creation stream and in an agent's reply. */
export interface WireError {
  code: string;
  message: string;
  hint: string | null;
  details: Record<string, unknown>;
}

export interface ErrorExtras {
  /** What the caller should do next. */
  hint?: string | null;
  /** Figures and names a program can act on. */
  details?: Record<string, unknown>;
  cause?: unknown;
}

/**
 * The root of every failure Sandpool reports. The message names what was received and what was expected.
 *
 * @example throw new SandpoolError("pool_busy", "batch 7 arrived while batch 6 runs", { hint: "wait for its reply" });
 */
export class SandpoolError extends Error {
  override readonly name = "SandpoolError";
  readonly code: ErrorCode;
  readonly hint: string | null;
  readonly details: Record<string, unknown>;

  constructor(code: ErrorCode, message: string, extras: ErrorExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.code = code;
    this.hint = extras.hint ?? null;
    this.details = extras.details ?? {};
  }

  /** The HTTP status of the code; 500 for codes that never cross HTTP. */
  get status(): number {
    return ERROR_CODES[this.code].status ?? 500;
  }

  /** The `{error}` body of an HTTP reply. */
  toWire(): { error: WireError } {
    return { error: { code: this.code, message: this.message, hint: this.hint, details: this.details } };
  }

  /** Rebuilds an error from `{code, message, hint, details}`; an unknown code becomes `fallback`, kept in the details. */
  static fromWire(wire: Partial<WireError>, fallback: ErrorCode = "internal"): SandpoolError {
    const known = typeof wire.code === "string" && Object.hasOwn(ERROR_CODES, wire.code);
    const details = { ...wire.details };
    if (!known && wire.code !== undefined) details.received_code = wire.code;
    return new SandpoolError(known ? (wire.code as ErrorCode) : fallback, String(wire.message ?? "no message given"), {
      hint: wire.hint ?? null,
      details,
    });
  }
}
