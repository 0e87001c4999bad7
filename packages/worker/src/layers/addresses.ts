import { BlockList, isIPv4, isIPv6 } from "node:net";

/** IPv4 networks that are no part of the internet: this host, its private surroundings, the metadata address, multicast, reserved. */
export const privateNetworks = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const;

const refused = new BlockList();
for (const [network, prefix] of privateNetworks) refused.addSubnet(network, prefix, "ipv4");
for (const [network, prefix] of [
  ["::", 96],
  ["64:ff9b::", 96],
  ["64:ff9b:1::", 48],
  ["2001::", 32],
  ["2002::", 16],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
] as const) {
  refused.addSubnet(network, prefix, "ipv6");
}

/**
 * Whether an address belongs to this host or its private surroundings: loopback, private, link-local (the metadata address too), shared,
 * multicast, and the IPv6 forms that carry an IPv4 address. One that is no address at all is refused too.
 */
export function isPrivateAddress(address: string): boolean {
  if (isIPv4(address)) return refused.check(address, "ipv4");
  // A block list looks at the IPv4 address in a mapped one.
  return !isIPv6Address(address) || refused.check(address, "ipv6");
}

function isIPv6Address(address: string): boolean {
  return isIPv6(address) && !address.includes("%");
}
