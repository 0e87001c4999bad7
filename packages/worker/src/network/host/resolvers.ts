import { readFile } from "node:fs/promises";
import { isIP } from "node:net";

const mostServers = 3;

/** The host's name servers, as `resolv.conf` has them; the host itself where it names none. */
export async function readNameServers(file = "/etc/resolv.conf"): Promise<{ address: string; port: number }[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  const found = [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map((match) => match[1] as string)
    // A link-local one needs its interface, which the rules cannot name.
    .filter((address) => isIP(address) !== 0 && !address.includes("%"))
    .slice(0, mostServers);
  return (found.length === 0 ? ["127.0.0.1"] : found).map((address) => ({ address, port: 53 }));
}
