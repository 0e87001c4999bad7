import type { CachedKind } from "./uses.ts";

/** Something kept in the data folder. */
export interface StoredPart {
  kind: CachedKind | "machines";
  /** Hash of an archive, key of a layer, id of a machine. */
  id: string;
  /** On disk. */
  bytes: number;
  /** Milliseconds since 1970. */
  usedAt: number;
  /** A live pool uses it; of a machine: something of it is on this host. */
  held: boolean;
}

/** What the data folder keeps of archives, layers and machines; images are counted by their own store. */
export interface Storage {
  /** Everything, in no order. */
  parts(): Promise<StoredPart[]>;
  /** Removes an archive or a layer, for every owner. False where a pool has come to use it meanwhile. */
  remove(kind: CachedKind, id: string): Promise<boolean>;
}
