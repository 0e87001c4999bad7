import { anyMachinePrefix } from "./plan.ts";
import { askNft } from "./run.ts";

/** Warnings about the host's own firewall: a packet that it drops is gone, whatever our table says of it. */
export async function firewallWarnings(ownTable: string): Promise<string[]> {
  const chains = (await askNft("chains")).map((entry) => entry.chain ?? {});
  const dropping = chains.filter(
    ({ hook, policy, table }) => policy === "drop" && (hook === "forward" || hook === "input") && table !== ownTable,
  );
  return dropping.map(({ family, table, name, hook }) => {
    const chain = `${family} ${table} ${name}`;
    const rule =
      hook === "input"
        ? `nft insert rule ${chain} iifname '"${anyMachinePrefix}*"' accept`
        : `nft insert rule ${chain} oifname '"${anyMachinePrefix}*"' accept; nft insert rule ${chain} iifname '"${anyMachinePrefix}*"' accept`;
    return `this host's firewall (chain ${chain}) may drop what machines send: where they reach nothing, allow their interfaces (${rule}); what they may reach Sandpool's own rules decide`;
  });
}
