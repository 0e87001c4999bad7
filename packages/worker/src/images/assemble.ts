import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../host/remove-tree.ts";
import type { ImageConfig } from "./config.ts";
import type { ImageOptions } from "./contract.ts";
import { explainDisk, imageFailed } from "./failed.ts";
import { finishTree, settleTree } from "./finish.ts";
import type { ImageLimits } from "./limits.ts";
import { type ImageManifest, imageId, readManifest } from "./manifest.ts";
import { syncFolder } from "./names.ts";
import { unpackLayer } from "./unpack/layer.ts";
import { Tree } from "./unpack/tree.ts";

export interface LayerFile {
  /** Compressed or not. */
  path: string;
  /** What its tar has to hash to; null where nobody said. */
  diffId: string | null;
  whiteouts: boolean;
}

export interface AssembleInput {
  /** Of all images. */
  folder: string;
  /** A folder of this image alone, removed by the caller. */
  work: string;
  layers: readonly LayerFile[];
  config: ImageConfig;
  limits: ImageLimits;
}

/** Unpacks the layers over each other and publishes the image by one rename; an equal one that is there already is kept. */
export async function assembleImage(input: AssembleInput, options: ImageOptions): Promise<ImageManifest> {
  try {
    return await assemble(input, options);
  } catch (error) {
    throw explainDisk(error);
  }
}

async function assemble(input: AssembleInput, { signal, onProgress }: ImageOptions): Promise<ImageManifest> {
  const { folder, work, config, limits } = input;
  const image = join(work, "image");
  const root = join(image, "rootfs");
  await mkdir(root, { recursive: true, mode: 0o700 });
  const tree = new Tree(root);
  const use = { bytes: 0, entries: 0 };
  const diffIds: string[] = [];
  for (const [index, { path, diffId, whiteouts }] of input.layers.entries()) {
    onProgress?.({ phase: "unpack", done: index, total: input.layers.length });
    const found = await unpackLayer({ tree, path, whiteouts, limits, use, signal });
    if (diffId !== null && found !== diffId) throw otherContent(index, found, diffId);
    diffIds.push(found);
  }
  onProgress?.({ phase: "store", done: 0, total: 1 });
  const drivers = await finishTree(root);
  signal.throwIfAborted();
  const id = imageId(diffIds, config);
  const bytes = await settleTree(image);
  const manifest: ImageManifest = {
    ...{ version: 1, id, layers: diffIds, config, bytes, drivers },
    createdAt: new Date().toISOString(),
  };
  await writeFile(join(image, "manifest.json"), JSON.stringify(manifest, null, 2), { flush: true, mode: 0o600 });
  await syncFolder(image);
  signal.throwIfAborted();
  return await publish(folder, image, manifest);
}

async function publish(folder: string, image: string, manifest: ImageManifest): Promise<ImageManifest> {
  const target = join(folder, manifest.id.slice("sha256:".length));
  const before = await readManifest(target);
  if (before !== null) return before;
  await removeTree(target);
  await chmod(image, 0o700);
  await rename(image, target);
  await syncFolder(folder);
  return manifest;
}

function otherContent(index: number, received: string, expected: string): Error {
  return imageFailed(`Layer ${index + 1} of the image unpacks to ${received}; its configuration says ${expected}.`, {
    hint: "The image is damaged or was changed; get it again.",
    details: { received, expected },
  });
}
