import { networkInterfaces } from "node:os";
import { isPrivateAddress } from "../../layers/addresses.ts";
import { type Exception, exceptionCheck } from "../policy/exceptions.ts";
import { type EgressHost, parseEgressHost } from "../policy/hosts.ts";

/** A machine as the service knows it. */
export interface Client {
  /** Null: open, any name. */
  egress: readonly EgressHost[] | null;
}

export interface Upstream {
  address: string;
  port: number;
}

/** What the worker told: machines by outer address, name servers, exceptions. */
export class Clients {
  readonly #clients = new Map<string, Client>();
  #isException = exceptionCheck([]);
  upstreams: readonly Upstream[] = [];
  /** Called when a machine goes. */
  onForget: (address: string) => void = () => undefined;

  /** Null for an address that is no machine's. */
  get(address: string | undefined): Client | null {
    return this.#clients.get((address ?? "").replace(/^::ffff:/, "")) ?? null;
  }

  set(address: string, egress: readonly string[] | null): void {
    this.#clients.set(address, { egress: egress?.map(parseEgressHost) ?? null });
  }

  forget(address: string): void {
    this.#clients.delete(address);
    this.onForget(address);
  }

  keepOnly(addresses: readonly string[]): void {
    const kept = new Set(addresses);
    for (const address of this.#clients.keys()) if (!kept.has(address)) this.forget(address);
  }

  configure(upstreams: readonly Upstream[], exceptions: readonly Exception[]): void {
    this.upstreams = upstreams;
    this.#isException = exceptionCheck(exceptions);
  }

  /** Whether machines may be led to this address; `port` null: to any of its ports. */
  isReachable(address: string, port: number | null): boolean {
    if (this.#isException(address, port)) return true;
    return !isPrivateAddress(address) && !ownAddresses().has(address);
  }
}

let own: { addresses: Set<string>; at: number } | null = null;
const OWN_ADDRESSES_MS = 2_000;

/** The host's own addresses, public ones too. */
function ownAddresses(): Set<string> {
  const now = performance.now();
  if (own === null || now - own.at > OWN_ADDRESSES_MS) {
    const found = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
    own = { addresses: new Set(found.map(({ address }) => address)), at: now };
  }
  return own.addresses;
}
