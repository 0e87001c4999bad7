import { BlockList, isIPv4 } from "node:net";

/** A place in a private network that machines may reach. */
export interface Exception {
  address: string;
  prefix: number;
  /** Null: all. */
  port: number | null;
}

/** What no exception opens: loopback, link-local with the metadata address, multicast, reserved, and machines themselves. */
export const closedNetworks = [
  ["0.0.0.0", 8],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const;

/** Widest: 10.0.0.0/8. A wider one would contain what is always closed. */
const shortestPrefix = 8;

/**
 * Reads the operator's exceptions: `address`, `address/prefix` or `address:port`.
 * @throws TypeError for what is none of them, and for addresses that stay closed
 */
export function parseExceptions(allowed: readonly string[]): Exception[] {
  return allowed.map((text) => {
    const found = /^(\d+\.\d+\.\d+\.\d+)(?:\/(\d{1,2})|:(\d{1,5}))?$/.exec(text);
    const address = found?.[1] ?? "";
    const prefix = Number(found?.[2] ?? 32);
    const port = found?.[3] === undefined ? null : Number(found[3]);
    if (!isIPv4(address) || prefix > 32 || (port !== null && (port < 1 || port > 65_535))) {
      throw new TypeError(
        `allowed for machines: ${JSON.stringify(text)} is none of address, address/prefix, address:port (IPv4: machines have no IPv6)`,
      );
    }
    if (prefix < shortestPrefix || closedNetworks.some((network) => overlap([address, prefix], network))) {
      throw new TypeError(
        `allowed for machines: ${JSON.stringify(text)} would open what stays closed (loopback, link-local, multicast, other machines) or is wider than /${shortestPrefix}`,
      );
    }
    return { address: networkOf(address, prefix), prefix, port };
  });
}

/** Looks addresses up in exceptions. */
export function exceptionCheck(exceptions: readonly Exception[]): (address: string, port: number | null) => boolean {
  const lists = exceptions.map(({ address, prefix, port }) => {
    const list = new BlockList();
    list.addSubnet(address, prefix, "ipv4");
    return { list, port };
  });
  return (address, port) =>
    isIPv4(address) &&
    lists.some(
      ({ list, port: only }) => (port === null || only === null || only === port) && list.check(address, "ipv4"),
    );
}

function overlap(one: readonly [string, number], other: readonly [string, number]): boolean {
  const prefix = Math.min(one[1], other[1]);
  return networkOf(one[0], prefix) === networkOf(other[0], prefix);
}

function networkOf(address: string, prefix: number): string {
  const value = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - prefix);
  const first = Math.floor(value / size) * size;
  return [24, 16, 8, 0].map((shift) => Math.floor(first / 2 ** shift) % 256).join(".");
}
