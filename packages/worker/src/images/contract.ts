import type { Readable } from "node:stream";
import type { MachineImage } from "../drivers/machine.ts";

/** Read-only root file systems on this host, kept by content and shared by all machines. */
export interface ImageStore {
  /** Every image and every recipe that could be built, `host` first. */
  list(): Promise<ImageDescription[]>;
  /**
   * The image of a name (`host`, `python`, `ghcr.io/a/b@sha256:…`, an imported name) or an id, as it is on this host now.
   * @throws `image_not_found`, whose hint says how it is made
   */
  resolve(nameOrId: string): Promise<ResolvedImage>;
  /** Builds a recipe, in a sandbox whose network reaches the package indexes only. A built one with the same content is kept. */
  build(recipe: string, options: ImageOptions): Promise<ImageDescription>;
  /** Pulls from a registry; without a digest the tag is resolved first and the digest kept and shown. */
  pull(reference: string, options: ImageOptions): Promise<ImageDescription>;
  /** Reads a tar: an OCI layout, a `docker save`, or a plain root file system. */
  import(name: string, source: Readable, options: ImageOptions): Promise<ImageDescription>;
  /** @throws `image_in_use` while `usedBy` names machines */
  remove(nameOrId: string, usedBy: readonly string[]): Promise<void>;
}

export interface ImageOptions {
  signal: AbortSignal;
  onProgress?: (progress: ImageProgress) => void;
}

/** `done` of `total` in bytes or steps; total 0: unknown. `text`: a line of the builder, unescaped. */
export interface ImageProgress {
  phase: "resolve" | "download" | "unpack" | "install" | "store";
  done: number;
  total: number;
  text?: string;
}

export interface ResolvedImage {
  /** `host`, or `sha256:` and 64 hexadecimal digits. */
  id: string;
  name: string;
  image: MachineImage;
  /** The image's own variables. */
  environ: Readonly<Record<string, string>>;
  user: string | null;
  cwd: string | null;
  /** Drivers that may run it, and why not the others. */
  drivers: Readonly<Record<"namespace" | "gvisor", { allowed: boolean; reason: string | null }>>;
}

export interface ImageDescription {
  /** Null: a recipe not built yet. */
  id: string | null;
  name: string;
  kind: "host" | "recipe" | "pulled" | "imported";
  /** Where it came from, with its digest; null for `host`. */
  source: string | null;
  /** On disk. */
  bytes: number | null;
  created_at: string | null;
  description: string;
}
