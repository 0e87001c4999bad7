import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { SandpoolError } from "@sandpool/protocol";
import type { Identity, Keyring } from "../keys/keyring.ts";
import type { AllowedHosts } from "./hosts.ts";

const checked = Symbol("checked authorization");
const caller = Symbol("caller");

type CheckedSocket = Socket & { [checked]?: { header: string; identity: Identity } };
type CheckedRequest = IncomingMessage & { [caller]?: Identity };

const OPEN_PATH = "/v1/health";

/**
 * The one check every request passes before any route sees it: Host, Origin, key.
 * A connection that sends the same Authorization header again is not hashed again.
 */
export class Gate {
  readonly #keyring: Keyring;
  readonly #hosts: () => AllowedHosts;

  constructor(keyring: Keyring, hosts: () => AllowedHosts) {
    this.#keyring = keyring;
    this.#hosts = hosts;
  }

  /** Returns the caller; null only on the one route that needs no key. Throws `host_not_allowed` or `unauthorized`. */
  admit(request: IncomingMessage): Identity | null {
    this.#hosts().check(request);
    const identity = this.#authenticate(request);
    if (identity) {
      (request as CheckedRequest)[caller] = identity;
      return identity;
    }
    if (request.url === OPEN_PATH) return null;
    throw unauthorized(request.headers.authorization);
  }

  /** The check of a request for a machine's port, whose Host names it (`host`) or is one of this server's own (`path`). Throws `host_not_allowed`. */
  checkPortHost(request: IncomingMessage, form: "host" | "path"): void {
    if (form === "path" || request.url?.startsWith("/") !== true) this.#hosts().check(request);
  }

  /** Whose key this is; null if nobody's. */
  identify(secret: string): Identity | null {
    return this.#keyring.identify(secret);
  }

  get listening(): AllowedHosts["listening"] {
    return this.#hosts().listening;
  }

  #authenticate(request: IncomingMessage): Identity | null {
    const header = request.headers.authorization;
    if (header === undefined) return null;
    const socket = request.socket as CheckedSocket;
    const known = socket[checked];
    if (known !== undefined && known.header === header && !known.identity.revoked) return known.identity;
    const secret = /^bearer ([\x21-\x7e]{1,512})$/i.exec(header)?.[1];
    const identity = secret === undefined ? null : this.#keyring.identify(secret);
    if (identity) socket[checked] = { header, identity };
    return identity;
  }
}

/** The caller of a request that {@link Gate.admit} let in. */
export function callerOf(request: IncomingMessage): Identity {
  const identity = (request as CheckedRequest)[caller];
  if (!identity) throw unauthorized(undefined);
  return identity;
}

function unauthorized(header: string | undefined): SandpoolError {
  const received = header === undefined ? "no Authorization header" : "an Authorization header without a known key";
  return new SandpoolError("unauthorized", `${received} was received, expected "Authorization: Bearer <key>"`, {
    hint: "the key of the first start stands in the credentials file; `sandpool keys create` makes another",
  });
}
