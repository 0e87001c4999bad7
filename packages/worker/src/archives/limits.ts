/** What one archive may weigh, packed and unpacked. */
export interface ArchiveLimits {
  packedBytes: number;
  unpackedBytes: number;
  entries: number;
  /** Folders above a file. */
  depth: number;
  pathBytes: number;
  /** Unpacked bytes for each packed byte, counted once `ratioFreeBytes` are unpacked. */
  ratio: number;
  ratioFreeBytes: number;
  /** Free disk space below which no upload is taken. */
  freeDiskBytes: number;
}

const MiB = 1024 * 1024;

export const defaultArchiveLimits: ArchiveLimits = {
  packedBytes: 512 * MiB,
  unpackedBytes: 4096 * MiB,
  entries: 100_000,
  depth: 32,
  pathBytes: 1024,
  ratio: 200,
  ratioFreeBytes: 64 * MiB,
  freeDiskBytes: 1024 * MiB,
};
