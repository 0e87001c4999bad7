import { createHash } from "node:crypto";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { formatSize } from "@sandpool/protocol";
import { assembleImage, type LayerFile } from "./assemble.ts";
import { emptyConfig, type ImageConfig } from "./config.ts";
import type { ImageOptions } from "./contract.ts";
import { checkFreeDisk, explainDisk, imageFailed } from "./failed.ts";
import type { ImageLimits } from "./limits.ts";
import type { ImageManifest } from "./manifest.ts";
import { readLayout } from "./saved/layout.ts";
import { readSave } from "./saved/save.ts";
import { findKind, spreadFiles } from "./saved/spread.ts";
import { tooLarge } from "./unpack/meter.ts";

export interface ImportInput {
  source: Readable;
  folder: string;
  work: string;
  limits: ImageLimits;
}

const diskEveryBytes = 64 * 2 ** 20;

/** Takes in a tar: an OCI layout, what `docker save` writes, or a plain root file system. */
export async function importImage(
  input: ImportInput,
  options: ImageOptions,
): Promise<{ manifest: ImageManifest; source: string }> {
  const { folder, work, limits } = input;
  const { signal, onProgress } = options;
  const path = join(work, "received");
  const digest = await receive(input, path, signal, (done) =>
    onProgress?.({ phase: "download", done, total: 0 }),
  ).catch((error: unknown) => {
    throw explainDisk(error);
  });
  onProgress?.({ phase: "resolve", done: 0, total: 1 });
  const kind = await findKind(path, limits, work, signal);
  let image: { layers: LayerFile[]; config: ImageConfig };
  if (kind === "rootfs") image = { layers: [{ path, diffId: null, whiteouts: false }], config: emptyConfig };
  else {
    const spread = join(work, "spread");
    await mkdir(spread, { mode: 0o700 });
    const files = await spreadFiles(path, spread, limits, signal);
    image = kind === "layout" ? await readLayout(files, limits) : await readSave(files, limits);
  }
  onProgress?.({ phase: "resolve", done: 1, total: 1, text: KINDS[kind] });
  return { manifest: await assembleImage({ folder, work, limits, ...image }, options), source: `tar ${digest}` };
}

const KINDS = {
  layout: "an OCI layout",
  save: "an image as docker saves it",
  rootfs: "a plain root file system",
};

async function receive(
  { source, work, limits }: ImportInput,
  path: string,
  signal: AbortSignal,
  onBytes: (done: number) => void,
): Promise<string> {
  const hash = createHash("sha256");
  const file = await open(path, "wx", 0o600);
  let bytes = 0;
  let nextDiskAt = 0;
  try {
    for await (const chunk of source) {
      signal.throwIfAborted();
      const buffer = typeof chunk === "string" ? Buffer.from(chunk) : (chunk as Buffer);
      bytes += buffer.length;
      if (bytes > limits.packedBytes) throw tooLarge(`the tar has over ${formatSize(limits.packedBytes)}`);
      if (bytes > nextDiskAt) {
        await checkFreeDisk(work, limits.freeDiskBytes);
        onBytes(bytes);
        nextDiskAt = bytes + diskEveryBytes;
      }
      hash.update(buffer);
      await file.write(buffer);
    }
  } finally {
    await file.close();
  }
  if (bytes === 0) throw imageFailed("Nothing was received; a tar was expected.");
  onBytes(bytes);
  return `sha256:${hash.digest("hex")}`;
}
