import { anyMachinePrefix } from "./plan.ts";
import { askIp, askNft } from "./run.ts";
import { readSetting, writeSetting } from "./settings.ts";

/**
 * Answers come in on the interface that leads out, which has to pass them on. Where the host forwards nothing yet, that interface alone
 * is set to forward, and the table's `guarded` keeps it to machines: the host becomes nobody's router.
 *
 * @param standing what earlier calls opened
 * @returns interfaces that forward only because machines need it
 */
export async function openForwarding(
  destinations: readonly string[],
  standing: readonly string[],
  table: string,
): Promise<string[]> {
  // Somebody else made this host a router: nothing is ours to open or to guard.
  if ((await readSetting("ipv4/ip_forward")) === "1") return [];
  const guarded = new Set(standing);
  const others = await guardedByOthers(table);
  for (const name of await interfacesTowards(destinations)) {
    const setting = `ipv4/conf/${name}/forwarding`;
    if ((await readSetting(setting)) === "1") {
      if (others.has(name)) guarded.add(name);
      continue;
    }
    await writeSetting(setting, "1");
    guarded.add(name);
  }
  return [...guarded].sort();
}

/** Takes back what `openForwarding` opened, but for what another server's machines need. */
export async function closeForwarding(guarded: readonly string[], table: string): Promise<void> {
  if (guarded.length === 0 || (await readSetting("ipv4/ip_forward")) === "1") return;
  const others = await guardedByOthers(table);
  for (const name of guarded) {
    const setting = `ipv4/conf/${name}/forwarding`;
    if (!others.has(name) && (await readSetting(setting)) !== null) await writeSetting(setting, "0");
  }
}

/** Interfaces of default routes, and of the routes to `destinations`. */
async function interfacesTowards(destinations: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  const routes = await askIp<{ dev?: string; nexthops?: { dev?: string }[] }>("-4", "route", "show", "default");
  for (const { dev, nexthops = [] } of routes) for (const hop of [dev, ...nexthops.map((next) => next.dev)]) add(hop);
  for (const destination of destinations) {
    const answers = await askIp<{ dev?: string }>("-4", "route", "get", destination).catch(() => []);
    add(answers[0]?.dev);
  }
  return found;

  function add(name: string | undefined): void {
    if (name !== undefined && name !== "lo" && !name.startsWith(anyMachinePrefix)) found.add(name);
  }
}

async function guardedByOthers(own: string): Promise<Set<string>> {
  const names = new Set<string>();
  const tables = (await askNft("tables")).map((entry) => entry.table?.name);
  for (const table of tables) {
    if (typeof table !== "string" || !/^sandpool_[0-9a-f]{12}$/.test(table) || table === own) continue;
    for (const name of await guardedBy(table)) names.add(name);
  }
  return names;
}

/** What a server's table says of it. */
export async function guardedBy(table: string): Promise<string[]> {
  const entries = await askNft("set", "inet", table, "guarded").catch(() => []);
  const found = entries.find((entry) => entry.set !== undefined)?.set?.elem;
  return Array.isArray(found) ? found.filter((name): name is string => typeof name === "string") : [];
}
