import { createHash } from "node:crypto";
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import { pack } from "tar-stream";
import { vi } from "vitest";
import type { ImageDescription, ImageProgress } from "../../src/images/contract.ts";
import { type ImageStoreOptions, type LocalImageStore, openImageStore } from "../../src/images/store.ts";

// Trees are removed in hooks, on a machine that may be busy; no test asserts a time.
vi.setConfig({ hookTimeout: 120_000 });

export interface Item {
  name: string;
  type?: "file" | "directory" | "symlink" | "link" | "fifo" | "character-device" | "block-device";
  content?: string | Buffer;
  linkname?: string;
  mode?: number;
  uid?: number;
  gid?: number;
  pax?: Record<string, string>;
}

/** A tar of exactly these entries, however wrong they are. */
export async function makeLayer(items: readonly Item[]): Promise<Buffer> {
  const tar = pack();
  for (const { content = "", type = "file", ...rest } of items) {
    const header = { mode: 0o644, mtime: new Date(0), type, ...rest };
    if (type === "file") tar.entry(header, content);
    else tar.entry(header);
  }
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

export function folder(name: string, mode = 0o755): Item {
  return { name, type: "directory", mode };
}

export function link(name: string, linkname: string): Item {
  return { name, type: "symlink", linkname };
}

export function digestOf(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** A configuration document for layers whose tars are these. */
export function makeConfig(tars: readonly Buffer[], config: Record<string, unknown> = {}): Buffer {
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  return json({ architecture, os: "linux", config, rootfs: { type: "layers", diff_ids: tars.map(digestOf) } });
}

/** What `docker save` writes for an image of these layers. */
export async function makeSave(tars: readonly Buffer[], config: Record<string, unknown> = {}): Promise<Buffer> {
  const document = makeConfig(tars, config);
  const layers = tars.map((content, index) => ({ name: `${index}/layer.tar`, content }));
  const manifest = [{ Config: "config.json", RepoTags: ["a:1"], Layers: layers.map(({ name }) => name) }];
  return await makeLayer([
    ...layers,
    { name: "config.json", content: document },
    { name: "manifest.json", content: json(manifest) },
  ]);
}

export function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** A store on a data folder of its own. */
export interface StoreBench {
  dataDir: string;
  store: LocalImageStore;
  progress: ImageProgress[];
  import(name: string, tar: Buffer | Readable): Promise<ImageDescription>;
  pull(reference: string): Promise<ImageDescription>;
  /** Where an image's root is. */
  root(nameOrId: string): Promise<string>;
  /** What is half made. */
  incoming(): string[];
  /** Folders of images. */
  kept(): string[];
  reopen(options?: Partial<ImageStoreOptions>): Promise<void>;
  remove(): Promise<void>;
}

export async function makeStore(options: Partial<ImageStoreOptions> = {}): Promise<StoreBench> {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpool-images-"));
  chmodSync(dataDir, 0o711);
  const open = (more: Partial<ImageStoreOptions>): Promise<LocalImageStore> =>
    openImageStore({ dataDir, driver: null, privateHosts: ["localhost"], ...options, ...more });
  const progress: ImageProgress[] = [];
  const signal = new AbortController().signal;
  const making = { signal, onProgress: (one: ImageProgress): void => void progress.push(one) };
  const bench: StoreBench = {
    ...{ dataDir, progress, store: await open({}) },
    import: (name, tar) => bench.store.import(name, Buffer.isBuffer(tar) ? Readable.from([tar]) : tar, making),
    pull: (reference) => bench.store.pull(reference, making),
    root: async (nameOrId) => {
      const { image } = await bench.store.resolve(nameOrId);
      if (image.kind !== "rootfs") throw new Error("it has no root of its own");
      return image.folder;
    },
    incoming: () => readdirSync(join(dataDir, "images", "incoming")),
    kept: () => readdirSync(join(dataDir, "images")).filter((name) => /^[0-9a-f]{64}$/.test(name)),
    reopen: async (more = {}) => {
      bench.store = await open(more);
    },
    remove: async () => {
      await bench.store.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
  return bench;
}

/** The code and message of a failure. */
export async function failureOf(work: Promise<unknown>): Promise<SandpoolError> {
  const outcome = await work.then(
    () => new Error("it did not fail"),
    (error: unknown) => error,
  );
  if (outcome instanceof SandpoolError) return outcome;
  throw outcome;
}
