import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { ImageConfig } from "./config.ts";
import type { ResolvedImage } from "./contract.ts";

/** What is kept beside an image's root file system. */
export interface ImageManifest {
  version: 1;
  /** `sha256:` and the hash that names its folder. */
  id: string;
  /** `sha256:…` of each layer's tar, the lowest first. */
  layers: string[];
  config: ImageConfig;
  /** Of the folder on disk. */
  bytes: number;
  drivers: ResolvedImage["drivers"];
  createdAt: string;
}

/** Raised when the same layers would be unpacked to something else. */
const unpackVersion = 1;

/** An image is its layers and what it says about its programs; equal ones have the same id, wherever they came from. */
export function imageId(layers: readonly string[], config: ImageConfig): string {
  const environ = Object.entries(config.environ).sort(([one], [other]) => (one < other ? -1 : 1));
  const text = JSON.stringify(["sandpool-image", unpackVersion, layers, { ...config, environ }]);
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

/** Null where there is none that this version understands. */
export async function readManifest(folder: string): Promise<ImageManifest | null> {
  try {
    const manifest = JSON.parse(await readFile(`${folder}/manifest.json`, "utf8")) as ImageManifest;
    return manifest.version === 1 ? manifest : null;
  } catch {
    return null;
  }
}
