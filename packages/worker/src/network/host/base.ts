import { withHostLock } from "../../host/uids/lock.ts";
import { networkFailed } from "../fail.ts";
import { listInterfaces, makeServicePair, removeInterface } from "./interfaces.ts";
import {
  anyMachinePrefix,
  firstServiceIndex,
  type HostNames,
  lastServiceIndex,
  outerAddress,
  outerIndex,
  outerRange,
} from "./plan.ts";
import { askIp } from "./run.ts";

/**
 * Makes what a server needs once: its service's address, on a pair of its own.
 * @returns the address's index
 * @throws where the host's routes already lead our range elsewhere
 */
export async function ensureService(names: HostNames): Promise<number> {
  return await withHostLock("network", async () => {
    const addresses = await askIp<{ ifname?: string; addr_info?: { local?: string }[] }>("-4", "address", "show");
    const taken = new Map<number, string>();
    for (const { ifname = "", addr_info: found = [] } of addresses) {
      for (const { local = "" } of found) {
        const index = outerIndex(local);
        if (index !== null) taken.set(index, ifname);
      }
    }
    for (const [index, name] of taken) if (name === names.service[0]) return index;
    await refuseForeignRoutes();
    // Half of one that was cut off in the making.
    if ((await listInterfaces()).some(({ name }) => name === names.service[0])) await removeInterface(names.service[0]);
    for (let index = firstServiceIndex; index <= lastServiceIndex; index += 1) {
      if (taken.has(index)) continue;
      await makeServicePair(names.service, outerAddress(index));
      return index;
    }
    throw networkFailed(
      `${lastServiceIndex} servers on this host have machines with networks already`,
      "stop one of them with `sandpool down`",
    );
  });
}

/** A route to a part of our range that is not of our making; the wide ones of a tunnel that takes everything may stand. */
async function refuseForeignRoutes(): Promise<void> {
  const routes = await askIp<{ dst?: string; dev?: string }>("-4", "route", "show", "table", "all");
  for (const { dst = "", dev = "" } of routes) {
    const [address = "", prefix = "32"] = dst.split("/");
    const isOurs = dev.startsWith(anyMachinePrefix) || /^sps[0-9a-f]{8}[ab]$/.test(dev);
    if (isOurs || Number(prefix) < 8 || !overlapsRange(address, Number(prefix))) continue;
    throw networkFailed(
      `this host routes ${dst} to ${dev}, and machines' addresses are in ${outerRange.first}/${outerRange.prefix}`,
      "take that route away, or run machines with `isolated`",
    );
  }
}

function overlapsRange(address: string, prefix: number): boolean {
  const parts = address.split(".").map(Number);
  const value = ((parts[0] ?? 0) << 8) | (parts[1] ?? 0);
  return prefix >= 16 ? value === 0xc613 : value >> (16 - prefix) === 0xc613 >> (16 - prefix);
}
