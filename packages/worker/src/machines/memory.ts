import { readFile } from "node:fs/promises";
import { machineFolders } from "../drivers/machines/folders.ts";
import { readJson } from "../drivers/machines/record.ts";

/** What the machine uses now, without the cache of files that the host would give back; null where no memory group counts it. */
export async function readMachineMemory(dataDir: string, id: string): Promise<number | null> {
  const settings = await readJson<{ memory_group: string | null }>(machineFolders(dataDir, id).shimSettings);
  const group = settings?.memory_group ?? null;
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
