import { findTool } from "../host/tools.ts";
import { runNft } from "./host/run.ts";

/** Null where machines can have networks; found by asking nft to check a table, which changes nothing. */
export async function probeNetworks(): Promise<{ reason: string; hint: string } | null> {
  if (process.platform !== "linux" || process.geteuid?.() !== 0) {
    return { reason: "the server is not root", hint: "start the server as root" };
  }
  for (const [tool, name] of [
    ["ip", "iproute2"],
    ["nft", "nftables"],
    ["nsenter", "util-linux"],
    ["setpriv", "util-linux"],
    ["prlimit", "util-linux"],
  ] as const) {
    if (findTool(tool) === null) return { reason: `${tool} is not installed`, hint: `apt-get install ${name}` };
  }
  try {
    await runNft("table inet sandpool_probe\ndelete table inet sandpool_probe\n");
    return null;
  } catch (error) {
    return {
      reason: `nftables cannot be used: ${(error as Error).message}`,
      hint: "the kernel needs nf_tables, and the server the capability NET_ADMIN",
    };
  }
}
