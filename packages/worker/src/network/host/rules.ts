import { privateNetworks } from "../../layers/addresses.ts";
import { closedNetworks, type Exception } from "../policy/exceptions.ts";
import {
  anyMachinePrefix,
  gatewayAddress,
  type HostNames,
  innerAddress,
  machineInterface,
  outerAddress,
  outerRange,
  servicePorts,
  serviceUid,
} from "./plan.ts";

/** One machine in the table. */
export interface RuleEntry {
  index: number;
  kind: "open" | "egress";
}

export interface RuleOptions {
  names: HostNames;
  /** Of the service's address. */
  serviceIndex: number;
  exceptions: readonly Exception[];
  /** Name servers of the host. */
  upstreams: readonly { address: string; port: number }[];
  /** Interfaces that forward only because machines need it. */
  guarded: readonly string[];
  entries: readonly RuleEntry[];
}

const outer = `${outerRange.first}/${outerRange.prefix}`;
/** Of one machine: the host's table of connections is everybody's. */
export const mostConnections = 8192;
/** Destination unreachable and time exceeded carry the packet they speak of. */
const icmpErrors = "icmp type { destination-unreachable, time-exceeded }";

/**
 * The server's whole table in place of the one that stood, in one transaction.
 *
 * A packet of a machine: `rewrite_source` gives it its outer address before connections are tracked, `arriving` judges it by interface and
 * address (which no other pair of passes), `towards_service` sends names and proxied ports to our service, `forwarding` and `incoming`
 * judge again where it goes after everybody's translations. Its answer is routed by the outer address, and `rewrite_destination` puts the
 * inner one in. An interface of ours without an entry reaches nothing.
 */
export function tableRules(options: RuleOptions): string {
  const { names } = options;
  const machine = `"${names.machinePrefix}*"`;
  const service = outerAddress(options.serviceIndex);
  return `
table inet ${names.table}
delete table inet ${names.table}
table inet ${names.table} {
  map outer { type ifname : ipv4_addr; }
  map policies { type ifname . ipv4_addr : verdict; }
  set egressing { type ifname; }
  set connections { type ifname; flags dynamic; }
  set guarded { type ifname; ${elements(options.guarded.map((name) => `"${name}"`))} }
  set private { type ipv4_addr; flags interval; ${elements(privateNetworks.map((network) => network.join("/")))} }
  set exceptions { type ipv4_addr . inet_proto . inet_service; flags interval; auto-merge; ${elements(exceptionElements(options.exceptions))} }
  set upstreams { type ipv4_addr . inet_service; ${elements(upstreamElements(options.upstreams, 4))} }
  set upstreams6 { type ipv6_addr . inet_service; ${elements(upstreamElements(options.upstreams, 6))} }
${verdictChains()}
${arrivingChains(machine, service)}
${routedChains(machine, service)}
${leavingChains(machine, serviceUid(options.serviceIndex))}
}
${entryCommands(names, options.entries, "add")}`;
}

/** Adds or deletes machines. */
export function entryCommands(names: HostNames, entries: readonly RuleEntry[], verb: "add" | "delete"): string {
  return entries
    .flatMap(({ index, kind }) => {
      const name = `"${machineInterface(names, index)}"`;
      const address = outerAddress(index);
      const commands = [
        `policies { ${name} . ${address} : jump ${kind} }`,
        `outer { ${name} : ${address} }`,
        ...(kind === "egress" ? [`egressing { ${name} }`] : []),
      ];
      return commands.map((command) => `${verb} element inet ${names.table} ${command}\n`);
    })
    .join("");
}

export function guardedCommands(names: HostNames, guarded: readonly string[]): string {
  return `flush set inet ${names.table} guarded\n${guarded.map((name) => `add element inet ${names.table} guarded { "${name}" }\n`).join("")}`;
}

export function upstreamCommands(names: HostNames, upstreams: RuleOptions["upstreams"]): string {
  return ([4, 6] as const)
    .map((family) => {
      const set = `inet ${names.table} upstreams${family === 6 ? "6" : ""}`;
      const found = upstreamElements(upstreams, family);
      return `flush set ${set}\n${found.length === 0 ? "" : `add element ${set} { ${found.join(", ")} }\n`}`;
    })
    .join("");
}

function verdictChains(): string {
  return `
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx type port-unreachable
  }
  chain destinations {
    ip daddr { ${closedNetworks.map((network) => network.join("/")).join(", ")} } goto refuse
    ip daddr . meta l4proto . th dport @exceptions accept
    fib daddr type != unicast goto refuse
    ip daddr @private goto refuse
  }
  chain limits {
    add @connections { iifname ct count over ${mostConnections} } goto refuse
  }
  chain open {
    ct state invalid drop
    ct state established,related accept
    jump limits
    meta l4proto { tcp, udp } th dport 53 accept
    jump destinations
    meta l4proto { icmp, tcp, udp } accept
    goto refuse
  }
  chain egress {
    ct state invalid drop
    ct state established,related accept
    jump limits
    meta l4proto { tcp, udp } th dport 53 accept
    tcp dport { 80, 443 } accept
    ip daddr ${gatewayAddress} tcp dport ${servicePorts.proxy} accept
    goto refuse
  }`;
}

function arrivingChains(machine: string, service: string): string {
  const { names, proxy, http, tls } = servicePorts;
  return `
  chain rewrite_source {
    type filter hook prerouting priority raw; policy accept;
    iifname ${machine} ip saddr ${innerAddress} ip saddr set iifname map @outer
  }
  chain machine {
    meta nfproto != ipv4 drop
    iifname . ip saddr vmap @policies
    drop
  }
  chain arriving {
    type filter hook prerouting priority mangle; policy accept;
    iifname ${machine} goto machine
  }
  chain towards_service {
    type nat hook prerouting priority dstnat - 1; policy accept;
    iifname ${machine} meta l4proto { tcp, udp } th dport 53 dnat ip to ${service}:${names}
    iifname @egressing ip daddr ${gatewayAddress} tcp dport ${proxy} dnat ip to ${service}:${proxy}
    iifname @egressing tcp dport 80 dnat ip to ${service}:${http}
    iifname @egressing tcp dport 443 dnat ip to ${service}:${tls}
  }`;
}

function routedChains(machine: string, service: string): string {
  const { names, proxy, http, tls } = servicePorts;
  const others = `"${anyMachinePrefix}*"`;
  return `
  chain forwarding {
    type filter hook forward priority filter; policy accept;
    oifname ${machine} tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
    iifname ${machine} tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
    iifname ${machine} goto forwarding_from
    oifname ${machine} ct state established,related accept
    oifname ${machine} drop
    iifname @guarded oifname != ${others} drop
  }
  chain forwarding_from {
    oifname ${others} goto refuse
    ct state established,related accept
    iifname @egressing goto refuse
    jump destinations
    accept
  }
  chain incoming {
    type filter hook input priority filter; policy accept;
    iifname ${machine} goto incoming_from
    ip daddr ${service} iifname != "lo" drop
  }
  chain incoming_from {
    ct state established,related accept
    ip daddr ${service} udp dport ${names} accept
    ip daddr ${service} tcp dport { ${names}, ${proxy}, ${http}, ${tls} } accept
    ip daddr . meta l4proto . th dport @exceptions accept
    goto refuse
  }`;
}

function leavingChains(machine: string, uid: number): string {
  return `
  chain outgoing {
    type filter hook output priority filter; policy accept;
    oifname ${machine} ct state new goto refuse
    meta skuid ${uid} goto outgoing_service
  }
  chain outgoing_service {
    ct state established,related accept
    meta l4proto { tcp, udp } ip daddr . th dport @upstreams accept
    meta l4proto { tcp, udp } ip6 daddr . th dport @upstreams6 accept
    meta nfproto ipv4 jump destinations
    ip6 daddr != 2000::/3 goto refuse
    meta nfproto ipv6 fib daddr type != unicast goto refuse
    meta l4proto { tcp, udp } accept
    goto refuse
  }
  chain masquerading {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${outer} oifname != ${machine} masquerade
  }
  chain rewrite_destination {
    type filter hook postrouting priority 300; policy accept;
    oifname ${machine} ${icmpErrors} @th,32,16 0 @th,32,16 set @nh,144,16 @th,160,32 set ${hexadecimal(innerAddress)}
    oifname ${machine} ip daddr ${outer} ip daddr set ${innerAddress}
  }`;
}

function elements(found: readonly string[]): string {
  return found.length === 0 ? "" : `elements = { ${found.join(", ")} };`;
}

function exceptionElements(exceptions: readonly Exception[]): string[] {
  return exceptions.flatMap(({ address, prefix, port }) =>
    ["tcp", "udp"].map((protocol) => `${address}/${prefix} . ${protocol} . ${port ?? "0-65535"}`),
  );
}

function upstreamElements(upstreams: RuleOptions["upstreams"], family: 4 | 6): string[] {
  const found = upstreams
    .filter(({ address }) => address.includes(":") === (family === 6))
    .map(({ address, port }) => `${address} . ${port}`);
  return [...new Set(found)];
}

function hexadecimal(address: string): string {
  return `0x${address
    .split(".")
    .map((part) => Number(part).toString(16).padStart(2, "0"))
    .join("")}`;
}
