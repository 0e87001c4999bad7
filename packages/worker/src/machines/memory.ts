import { readFile } from "node:fs/promises";
import { machineFolders } from "../drivers/machines/folders.ts";
import { readJson } from "../drivers/machines/record.ts";

/** The machine's group of the memory controller; null where nothing counts it. */
export async function findMemoryGroup(dataDir: string, id: string): Promise<string | null> {
  const settings = await readJson<{ memory_group: string | null }>(machineFolders(dataDir, id).shimSettings);
  return settings?.memory_group ?? null;
}

/** What is used now, without the cache of files that the host would give back; null where it cannot be read. */
export async function readMemoryUse(group: string | null): Promise<number | null> {
  if (group === null) return null;
  const read = (name: string): Promise<string | null> => readFile(`${group}/${name}`, "latin1").catch(() => null);
  const [current, usage, stat] = await Promise.all(
    ["memory.current", "memory.usage_in_bytes", "memory.stat"].map(read),
  );
  const all = current ?? usage ?? null;
  if (all === null) return null;
  const cached = stat?.match(/^(?:total_)?inactive_file (\d+)$/m)?.[1] ?? "0";
  return Math.max(0, Number(all) - Number(cached));
}
