/** What one image may weigh and need; the operator's configuration. */
export interface ImageLimits {
  /** Compressed layers together, or an imported tar. */
  packedBytes: number;
  unpackedBytes: number;
  entries: number;
  /** Layers of one image. */
  layers: number;
  /** Folders above a file. */
  depth: number;
  pathBytes: number;
  /** Unpacked bytes for each packed byte of a layer, counted once `ratioFreeBytes` are unpacked. */
  ratio: number;
  ratioFreeBytes: number;
  /** Free disk space below which nothing is downloaded, unpacked or built. */
  freeDiskBytes: number;
  /** Of a build or a pull, from its begin to its end. */
  timeoutMs: number;
}

const MiB = 2 ** 20;
const GiB = 2 ** 30;

export const defaultImageLimits: ImageLimits = {
  packedBytes: 32 * GiB,
  unpackedBytes: 64 * GiB,
  entries: 2_000_000,
  layers: 128,
  depth: 128,
  pathBytes: 3072,
  ratio: 200,
  ratioFreeBytes: 256 * MiB,
  freeDiskBytes: 2 * GiB,
  timeoutMs: 60 * 60_000,
};
