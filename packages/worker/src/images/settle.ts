import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../host/remove-tree.ts";
import { readManifest } from "./manifest.ts";
import { ImageNames } from "./names.ts";

/**
 * After a crash: a folder without a manifest is no image, and an image that nothing names is named by its id, so that it is seen and can be
 * removed. What is half made lies elsewhere and is gone before.
 */
export async function settleLeft(folder: string): Promise<void> {
  const names = new ImageNames(join(folder, "names"));
  const named = new Set((await names.all()).map(({ id }) => id));
  for (const hash of await readdir(folder)) {
    if (!/^[0-9a-f]{64}$/.test(hash)) continue;
    const manifest = await readManifest(join(folder, hash));
    if (manifest === null) await removeTree(join(folder, hash));
    else if (!named.has(manifest.id)) {
      const { id, createdAt } = manifest;
      const description = "made by a server that ended before it had a name";
      await names.set({ name: id, id, kind: "imported", source: null, description, createdAt });
    }
  }
}
