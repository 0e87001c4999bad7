import { formatSize } from "@sandpool/protocol";
import { type Collected, Sandpool } from "sandpool";
import { confirm } from "../output/confirm.ts";
import { EXIT } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";
import { withSpinner } from "../output/progress.ts";

/** What the server keeps on its disk. */
export async function showStorage(output: Output): Promise<number> {
  const storage = await new Sandpool().storage();
  if (output.json) output.document(storage);
  else {
    const rows = storage.parts.map(({ kind, count, bytes }) => [kind, count, formatSize(bytes)]);
    output.table(["KIND", "COUNT", "ON DISK"], rows);
    const { total, free, low_water: lowWater } = storage.disk;
    output.line();
    output.line(`${formatSize(free)} of ${formatSize(total)} free; below ${formatSize(lowWater)} new work is refused.`);
  }
  return EXIT.ok;
}

/** Removes what nothing uses, after showing it and asking unless `yes`. */
export async function collectStorage(output: Output, options: { dryRun: boolean; yes: boolean }): Promise<number> {
  const client = new Sandpool();
  if (options.dryRun || !options.yes) {
    const planned = await client.collectStorage({ dryRun: true });
    if (options.dryRun || planned.removed.length === 0) return show(output, planned, "would be removed");
    if (!output.json) show(output, planned, "would be removed");
    if (!(await confirm("Remove it?"))) {
      output.note("Nothing was removed.");
      return EXIT.failed;
    }
  }
  const removed = await withSpinner(output, "removing", () => client.collectStorage());
  return show(output, removed, "removed");
}

function show(output: Output, { removed, bytes }: Collected, done: string): number {
  if (output.json) output.document({ removed, bytes });
  else {
    if (removed.length > 0) {
      output.table(
        ["KIND", "ID", "ON DISK"],
        removed.map((part) => [part.kind, part.id, formatSize(part.bytes)]),
      );
    }
    output.line(`${safe(removed.length)} ${done}, ${formatSize(bytes)}.`);
  }
  return EXIT.ok;
}
