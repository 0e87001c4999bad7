import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { formatSize } from "@sandpool/protocol";
import { assembleImage, type LayerFile } from "./assemble.ts";
import { type ImageDocument, readImageDocument } from "./config.ts";
import type { ImageOptions } from "./contract.ts";
import { checkFreeDisk } from "./failed.ts";
import type { ImageLimits } from "./limits.ts";
import { type ImageManifest, imageId, readManifest } from "./manifest.ts";
import {
  checkDigest,
  checkDocument,
  digestOf,
  documentLimitBytes,
  findManifest,
  manifestTypes,
  type OciManifest,
  readChecked,
} from "./manifests.ts";
import { nameOf, type Reference } from "./reference.ts";
import { RegistryClient } from "./registry/client.ts";
import { openDialer } from "./registry/dial.ts";
import { downloadBlob } from "./registry/download.ts";
import { tooLarge } from "./unpack/meter.ts";

export interface PullInput {
  reference: Reference;
  /** Of all images. */
  folder: string;
  work: string;
  limits: ImageLimits;
  privateHosts: readonly string[];
  /** PEM; null: Node's own. */
  certificates: string | null;
}

const downloadsAtOnce = 3;

/** Pulls an image; layers are checked by their digests before they are unpacked, and by their diff ids after. */
export async function pullImage(
  input: PullInput,
  options: ImageOptions,
): Promise<{ manifest: ImageManifest; source: string }> {
  const agent = openDialer(input.privateHosts, input.certificates);
  try {
    const client = new RegistryClient(input.reference, agent, options.signal);
    return await pullWith(client, input, options);
  } finally {
    await agent.destroy();
  }
}

async function pullWith(
  client: RegistryClient,
  { reference, folder, work, limits }: PullInput,
  options: ImageOptions,
): Promise<{ manifest: ImageManifest; source: string }> {
  const { onProgress } = options;
  onProgress?.({ phase: "resolve", done: 0, total: 1 });
  const top = await client.read(`manifests/${reference.digest ?? reference.tag}`, manifestTypes, documentLimitBytes);
  const digest = digestOf(top.body);
  for (const expected of [reference.digest, top.digest]) if (expected !== null) checkDigest(digest, expected);
  const source = nameOf({ ...reference, tag: null, digest });
  onProgress?.({ phase: "resolve", done: 1, total: 1, text: `${nameOf(reference)} is ${source}` });
  const oci = await findManifest(
    top.body,
    async ({ digest: part }) => (await client.read(`manifests/${part}`, manifestTypes, documentLimitBytes)).body,
    limits,
  );
  const readBlob = async ({ digest: part }: { digest: string }): Promise<Buffer> =>
    (await client.read(`blobs/${part}`, "*/*", documentLimitBytes)).body;
  const document = readImageDocument(await readChecked(oci.config, readBlob));
  checkDocument(document, oci.layers.length);
  const id = imageId(document.diffIds, document.config);
  const before = await readManifest(join(folder, id.slice("sha256:".length)));
  if (before !== null) return { manifest: before, source };
  await checkSize(oci, work, limits);
  const layers = await downloadLayers(client, oci, document, work, options);
  return { manifest: await assembleImage({ folder, work, layers, config: document.config, limits }, options), source };
}

async function checkSize({ layers }: OciManifest, work: string, limits: ImageLimits): Promise<void> {
  const bytes = layers.reduce((sum, layer) => sum + layer.bytes, 0);
  if (bytes > limits.packedBytes)
    throw tooLarge(`its layers have ${formatSize(bytes)}, at most ${formatSize(limits.packedBytes)} are taken`);
  await checkFreeDisk(work, limits.freeDiskBytes + bytes);
}

async function downloadLayers(
  client: RegistryClient,
  { layers }: OciManifest,
  { diffIds }: ImageDocument,
  work: string,
  { signal, onProgress }: ImageOptions,
): Promise<LayerFile[]> {
  const folder = join(work, "blobs");
  await mkdir(folder, { mode: 0o700 });
  const blobs = [...new Map(layers.map((layer) => [layer.digest, layer])).values()];
  const total = blobs.reduce((sum, blob) => sum + blob.bytes, 0);
  const pathOf = (digest: string): string => join(folder, digest.slice("sha256:".length));
  let done = 0;
  const queue = [...blobs];
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const drain = async (): Promise<void> => {
    for (let blob = queue.shift(); blob !== undefined && !stop.aborted; blob = queue.shift()) {
      await downloadBlob(client, blob, pathOf(blob.digest), stop, (bytes) => {
        done += bytes;
        onProgress?.({ phase: "download", done, total });
      });
    }
  };
  const running = Array.from({ length: downloadsAtOnce }, drain);
  try {
    await Promise.all(running);
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(running);
    throw error;
  }
  return layers.map((layer, index) => {
    return { path: pathOf(layer.digest), diffId: diffIds[index] ?? null, whiteouts: true };
  });
}
