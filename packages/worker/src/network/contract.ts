import type { MachineNetwork } from "../drivers/machine.ts";
import type { MachineNetworkPolicy } from "../machines/contract.ts";

/** The networks of this host's machines. All rules stand before a machine runs. */
export interface Networks {
  /** Null where this host can give networks; else why not and what to do. */
  probe(): Promise<{ reason: string; hint: string } | null>;
  /** Variables and files a machine with this policy needs: proxy variables, `/etc/resolv.conf`. Same in every machine. */
  inside(policy: MachineNetworkPolicy): { environ: Record<string, string>; resolvConf: string | null };
  /** Fills the namespace: veth, addresses, routes, rules, name service. Rolls back whole. */
  connect(id: string, policy: MachineNetworkPolicy, network: MachineNetwork): Promise<ConnectedNetwork>;
  /** After a restart of the server: what is still there of it; made again where something is missing. */
  adopt(id: string, policy: MachineNetworkPolicy, network: MachineNetwork): Promise<ConnectedNetwork>;
  /** Idempotent. */
  disconnect(id: string): Promise<void>;
  /** Removes every interface, rule and process of this data folder that belongs to none of `ids`. */
  reconcile(ids: ReadonlySet<string>): Promise<void>;
  /** Ends the proxy; `keep`: machines run on, and so do their rules. */
  close(options: { keep: boolean }): Promise<void>;
}

export interface ConnectedNetwork {
  /** The host side's. */
  outerAddress: string;
}

export interface NetworkOptions {
  dataDir: string;
  /** `address`, `address/prefix` or `address:port` in a private network that machines may reach: the operator's exceptions. */
  allowed: readonly string[];
  /** In place of those of the host's `/etc/resolv.conf`. */
  nameServers?: readonly { address: string; port: number }[];
  warn?: (message: string) => void;
}
