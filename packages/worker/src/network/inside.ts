import type { MachineNetworkPolicy } from "../machines/contract.ts";
import { gatewayAddress, servicePorts } from "./host/plan.ts";

/** Variables and the `/etc/resolv.conf` of a machine with this policy; null: it has no name service. */
export function insideOf(policy: MachineNetworkPolicy): { environ: Record<string, string>; resolvConf: string | null } {
  if (policy.kind === "isolated") return { environ: {}, resolvConf: null };
  const resolvConf = `nameserver ${gatewayAddress}\noptions timeout:3 attempts:2\n`;
  return { environ: policy.kind === "egress" ? proxyVariables() : {}, resolvConf };
}

/** In both cases: curl reads `http_proxy` in lower case only, others the upper one. */
function proxyVariables(): Record<string, string> {
  const proxy = `http://${gatewayAddress}:${servicePorts.proxy}`;
  const variables = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: "localhost,127.0.0.1,::1" };
  const lower = Object.entries(variables).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...variables, ...Object.fromEntries(lower) };
}
