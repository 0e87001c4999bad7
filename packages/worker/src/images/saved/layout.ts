import { readFile, stat } from "node:fs/promises";
import type { LayerFile } from "../assemble.ts";
import { type ImageConfig, readImageDocument } from "../config.ts";
import { imageFailed } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import { checkDocument, type Descriptor, documentLimitBytes, findManifest, readChecked } from "../manifests.ts";
import type { SavedFiles } from "./spread.ts";

/** Reads an OCI layout. The diff ids, checked when it is unpacked, are what its layers have to be. */
export async function readLayout(
  files: SavedFiles,
  limits: ImageLimits,
): Promise<{ layers: LayerFile[]; config: ImageConfig }> {
  const index = await readSmall(files, "index.json");
  const readBlob = ({ digest }: Descriptor): Promise<Buffer> => readSmall(files, blobName(digest));
  const manifest = await findManifest(index, readBlob, limits);
  const document = readImageDocument(await readChecked(manifest.config, readBlob));
  checkDocument(document, manifest.layers.length);
  const layers = manifest.layers.map(({ digest }, at): LayerFile => {
    return { path: fileOf(files, blobName(digest)), diffId: document.diffIds[at] ?? null, whiteouts: true };
  });
  return { layers, config: document.config };
}

/** A document of the saved image. */
export async function readSmall(files: SavedFiles, name: string): Promise<Buffer> {
  const path = fileOf(files, name);
  const { size } = await stat(path);
  if (size <= documentLimitBytes) return await readFile(path);
  throw imageFailed(`${JSON.stringify(name)} in the tar has ${size} bytes; at most ${documentLimitBytes} are allowed.`);
}

export function fileOf(files: SavedFiles, name: string): string {
  const path = files.get(name);
  if (path !== undefined) return path;
  throw imageFailed(`The tar lacks ${JSON.stringify(name.slice(0, 200))}, which its own index names.`, {
    hint: "Save the image again, whole.",
  });
}

function blobName(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}
