import { createHash, randomUUID } from "node:crypto";
import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ImageDescription } from "./contract.ts";

/** What a name of an image stands for. */
export interface ImageName {
  name: string;
  id: string;
  kind: Exclude<ImageDescription["kind"], "host">;
  /** Where it came from, with its digest. */
  source: string | null;
  description: string;
  createdAt: string;
}

/** Names of images, one file each, so that each is changed whole; a name may be any text. */
export class ImageNames {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async all(): Promise<ImageName[]> {
    const files = (await readdir(this.#folder)).filter((file) => file.endsWith(".json"));
    const names = await Promise.all(files.map((file) => readName(join(this.#folder, file))));
    return names.filter((name) => name !== null).sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  async find(name: string): Promise<ImageName | null> {
    const found = await readName(this.#file(name));
    return found?.name === name ? found : null;
  }

  async set(name: ImageName): Promise<void> {
    const draft = join(this.#folder, `${randomUUID()}.draft`);
    const file = await open(draft, "wx", 0o600);
    try {
      await file.writeFile(JSON.stringify(name));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, this.#file(name.name));
    await syncFolder(this.#folder);
  }

  async remove(name: string): Promise<void> {
    await rm(this.#file(name), { force: true });
    await syncFolder(this.#folder);
  }

  #file(name: string): string {
    return join(this.#folder, `${createHash("sha256").update(name).digest("hex").slice(0, 40)}.json`);
  }
}

/** Makes a rename or a removal in a folder survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function readName(file: string): Promise<ImageName | null> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as ImageName;
  } catch {
    return null;
  }
}
