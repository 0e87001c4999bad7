/**
 * Addresses of machines. Inside every machine all of them are the same, so that a copy of it goes on; on the host's side each machine
 * has an address of its own in `outerRange`.
 */

/** A machine's own address, in RFC 2544's network for benchmarks: neither the internet nor a private network uses it. */
export const innerAddress = "198.18.0.1";
export const gatewayAddress = "198.18.0.2";
export const innerPrefix = 30;
/** Locally administered, unicast. */
export const innerMac = "02:73:70:00:00:01";
export const gatewayMac = "02:73:70:00:00:02";

/**
 * The host side's addresses. 198.19 is 198.18 + 1, the two halves of the inner address: their checksums are equal, which
 * `rules.ts` needs to translate ICMP errors.
 */
export const outerRange = { first: "198.19.0.0", prefix: 16 } as const;

/** Low halves of outer addresses: the first ones are those of the servers' own services. */
export const firstServiceIndex = 1;
export const lastServiceIndex = 14;
export const firstMachineIndex = 256;
export const lastMachineIndex = 65_534;

/** Where the name service and the proxy listen on the service's address. Below 1024: nobody but root can take a port while it is down. */
export const servicePorts = { names: 53, proxy: 999, http: 998, tls: 997 } as const;

/** A user for each server's service. Nothing else on the host has it: systemd's table of uid ranges leaves 65520 to 65533 unused. */
export function serviceUid(serviceIndex: number): number {
  return 65_519 + serviceIndex;
}

export function outerAddress(index: number): string {
  return `198.19.${index >> 8}.${index & 255}`;
}

/** The low half of an outer address; null for any other. */
export function outerIndex(address: string): number | null {
  const found = /^198\.19\.(\d{1,3})\.(\d{1,3})$/.exec(address);
  return found === null ? null : Number(found[1]) * 256 + Number(found[2]);
}

/** Names of what one server makes on the host. */
export interface HostNames {
  key: string;
  table: string;
  /** The 11 characters that begin each of its machines' interfaces; 4 hexadecimal digits of the index follow. */
  machinePrefix: string;
  /** Two ends of a pair that only holds the service's address. */
  service: readonly [string, string];
}

/** What all machines' interfaces of all servers on the host begin with. */
export const anyMachinePrefix = "spm";

/** @param key `HostFolders.key` */
export function hostNames(key: string): HostNames {
  const short = key.slice(0, 8);
  return {
    key,
    table: `sandpool_${key}`,
    machinePrefix: `${anyMachinePrefix}${short}`,
    service: [`sps${short}a`, `sps${short}b`],
  };
}

export function machineInterface(names: HostNames, index: number): string {
  return `${names.machinePrefix}${index.toString(16).padStart(4, "0")}`;
}

/** The interface's alias says whose it is: its name has no room for that. */
export function interfaceAlias(key: string, id: string): string {
  return `sandpool ${key} ${id}`;
}

export function parseAlias(alias: string | undefined): { key: string; id: string } | null {
  const found = /^sandpool ([0-9a-f]{12}) (\S+)$/.exec(alias ?? "");
  return found === null ? null : { key: found[1] as string, id: found[2] as string };
}
