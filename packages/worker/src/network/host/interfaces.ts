import {
  gatewayAddress,
  gatewayMac,
  type HostNames,
  innerAddress,
  innerMac,
  innerPrefix,
  interfaceAlias,
  machineInterface,
  outerAddress,
  parseAlias,
} from "./plan.ts";
import { askIp, runIp } from "./run.ts";
import { writeSetting } from "./settings.ts";

export interface HostInterface {
  name: string;
  /** Whose machine's; null for an interface that does not say. */
  owner: { key: string; id: string } | null;
}

/** All interfaces of this host's network namespace. */
export async function listInterfaces(): Promise<HostInterface[]> {
  const links = await askIp<{ ifname?: string; ifalias?: string }>("link", "show");
  return links
    .filter(({ ifname }) => ifname !== undefined)
    .map(({ ifname, ifalias }) => ({ name: ifname as string, owner: parseAlias(ifalias) }));
}

/**
 * Makes a machine's pair: the host's end, and `eth0` in its namespace, which is that of `pid`. There is no bridge, and nobody asks
 * for hardware addresses: both ends know the other's for good. Fails where the index is taken, by whomever.
 */
export async function makePair(names: HostNames, id: string, index: number, pid: number): Promise<void> {
  const name = machineInterface(names, index);
  const peer = `peer name eth0 address ${innerMac} netns ${pid}`;
  await runIp([`link add name ${name} address ${gatewayMac} type veth ${peer}`]);
  try {
    await setHostSide(name);
    await runIp([
      `link set dev ${name} alias "${interfaceAlias(names.key, id)}"`,
      `link set dev ${name} up`,
      // Without `replace`: a route that is there belongs to another server's machine.
      `route add ${outerAddress(index)}/32 dev ${name} scope link`,
      neighbour(name, index),
    ]);
  } catch (error) {
    await removeInterface(name);
    throw error;
  }
}

/** Makes the host's end again what it was, whatever the host's own tools did to it meanwhile. */
export async function repairHostSide(names: HostNames, index: number): Promise<void> {
  const name = machineInterface(names, index);
  await setHostSide(name);
  const route = `route replace ${outerAddress(index)}/32 dev ${name} scope link`;
  await runIp([`link set dev ${name} up`, route, neighbour(name, index)]);
}

function neighbour(name: string, index: number): string {
  return `neigh replace ${outerAddress(index)} lladdr ${innerMac} dev ${name} nud permanent`;
}

/** What a machine's end needs before it runs. Never later: gVisor takes the address off, and the host's kernel would answer beside it. */
export async function setInnerSide(netns: string): Promise<void> {
  await runIp(
    [
      // No IPv6 address ever, not even a link-local one.
      "link set dev eth0 addrgenmode none",
      `address replace ${innerAddress}/${innerPrefix} dev eth0`,
      "link set dev eth0 up",
      `neigh replace ${gatewayAddress} lladdr ${gatewayMac} dev eth0 nud permanent`,
      `route replace default via ${gatewayAddress} dev eth0`,
    ],
    netns,
  );
}

/** A pair that holds the service's address and carries no packet. */
export async function makeServicePair([name, peer]: readonly [string, string], address: string): Promise<void> {
  await runIp([`link add name ${name} type veth peer name ${peer}`]);
  try {
    for (const end of [name, peer]) await setHostSide(end);
    await runIp([`address add ${address}/32 dev ${name}`, `link set dev ${name} up`, `link set dev ${peer} up`]);
  } catch (error) {
    await removeInterface(name);
    throw error;
  }
}

/** Idempotent. */
export async function removeInterface(name: string): Promise<void> {
  try {
    await runIp([`link delete dev ${name}`]);
  } catch (error) {
    // A machine's end took this one with it.
    if ((await listInterfaces()).some((found) => found.name === name)) throw error;
  }
}

/** IPv4 only; what comes in may be passed on; nobody is told of other routes; no answer to who has an address. */
async function setHostSide(name: string): Promise<void> {
  await writeSetting(`ipv6/conf/${name}/disable_ipv6`, "1", { optional: true });
  await Promise.all(
    Object.entries({
      forwarding: "1",
      rp_filter: "1",
      accept_redirects: "0",
      send_redirects: "0",
      arp_ignore: "8",
    }).map(([setting, value]) => writeSetting(`ipv4/conf/${name}/${setting}`, value)),
  );
}
