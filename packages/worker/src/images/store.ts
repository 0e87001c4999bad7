import { randomUUID } from "node:crypto";
import { chmod, mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { SandpoolError } from "@sandpool/protocol";
import type { Driver } from "../drivers/driver.ts";
import { fail } from "../fail.ts";
import { removeTree } from "../host/remove-tree.ts";
import { findCertificates } from "../layers/build.ts";
import type { ImageDescription, ImageOptions, ImageStore, ResolvedImage } from "./contract.ts";
import { describeImages, describeName, hostDescription, hostImage } from "./describe.ts";
import { checkFreeDisk, imageFailed } from "./failed.ts";
import { importImage } from "./import.ts";
import { defaultImageLimits, type ImageLimits } from "./limits.ts";
import { type ImageManifest, readManifest } from "./manifest.ts";
import { type ImageName, ImageNames } from "./names.ts";
import { pullImage } from "./pull.ts";
import { buildRecipe } from "./recipes/build.ts";
import { readRecipes, recipeKey, recipesFolder } from "./recipes/recipe.ts";
import { nameOf, parseReference } from "./reference.ts";
import { settleLeft } from "./settle.ts";
import { SharedWork, Turns } from "./shared.ts";

export interface ImageStoreOptions {
  dataDir: string;
  /** Where recipes are built: the isolating driver of pools; null: nothing can be built here. */
  driver: Driver | null;
  /** Registries, package indexes and mirrors that may have private addresses: the operator's. */
  privateHosts: readonly string[];
  limits?: Partial<ImageLimits>;
  /** Folder of the recipes. Default: those that come with the package. */
  recipes?: string;
}

/** A store that can be closed: what is being made is given up. */
export interface LocalImageStore extends ImageStore {
  close(): Promise<void>;
}

const importedName = /^[a-z][a-z0-9._-]{0,127}$/;

/**
 * Images under `<dataDir>/images`: `<sha256>/{rootfs,manifest.json}`, published whole by one rename and never changed, and `names`.
 * What a crash left half made is removed when the store is opened.
 *
 * @example
 * const images = await openImageStore({ dataDir, driver, privateHosts: [] });
 * const { image } = await images.resolve((await images.pull("ghcr.io/owner/name:1", { signal })).id ?? "");
 */
export async function openImageStore(options: ImageStoreOptions): Promise<LocalImageStore> {
  const folder = join(options.dataDir, "images");
  const incoming = join(folder, "incoming");
  await removeTree(incoming);
  for (const [path, mode] of [
    [folder, 0o711],
    [incoming, 0o711],
    [join(folder, "names"), 0o700],
  ] as const) {
    await mkdir(path, { recursive: true, mode });
    await chmod(path, mode);
  }
  await settleLeft(folder);
  return new DiskImageStore(folder, options);
}

class DiskImageStore implements LocalImageStore {
  readonly #folder: string;
  readonly #options: ImageStoreOptions;
  readonly #limits: ImageLimits;
  readonly #names: ImageNames;
  readonly #making = new SharedWork<ImageDescription>();
  readonly #changing = new Turns();

  constructor(folder: string, options: ImageStoreOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#limits = { ...defaultImageLimits, ...options.limits };
    this.#names = new ImageNames(join(folder, "names"));
  }

  async list(): Promise<ImageDescription[]> {
    return describeImages(await this.#names.all(), await this.#recipes(), (id) => this.#manifest(id));
  }

  async resolve(nameOrId: string): Promise<ResolvedImage> {
    if (nameOrId === hostDescription.id) return hostImage;
    const found = await this.#find(nameOrId);
    const manifest = found === null ? null : await this.#manifest(found.id);
    if (found === null || manifest === null) throw await this.#notFound(nameOrId);
    const { config, drivers } = manifest;
    return {
      ...{ id: manifest.id, name: found.name, drivers },
      image: { kind: "rootfs", folder: join(this.#path(manifest.id), "rootfs") },
      ...{ environ: config.environ, user: config.user, cwd: config.cwd },
    };
  }

  async build(name: string, options: ImageOptions): Promise<ImageDescription> {
    const recipe = (await this.#recipes()).find((one) => one.name === name);
    if (recipe === undefined) throw await this.#notFound(name);
    const { driver } = this.#options;
    if (driver === null) throw imageFailed("This host cannot build images: nothing isolates what a build runs.");
    const source = `recipe ${recipeKey(recipe)}`;
    return await this.#making.run(
      source,
      async (shared) => {
        const before = await this.#names.find(name);
        const built = before?.source === source ? await this.#manifest(before.id) : null;
        if (before !== null && built !== null) return describeName(before, built);
        return await this.#make(
          { name, kind: "recipe", description: recipe.description },
          shared,
          async (work, abort) => {
            const { privateHosts } = this.#options;
            const input = { ...{ recipe, driver, work, privateHosts }, folder: this.#folder, limits: this.#limits };
            return { manifest: await buildRecipe(input, abort), source };
          },
        );
      },
      options,
    );
  }

  async pull(text: string, options: ImageOptions): Promise<ImageDescription> {
    const reference = parseReference(text);
    const name = nameOf(reference);
    const path = findCertificates();
    const certificates = path === null ? null : await readFile(path, "utf8").catch(() => null);
    return await this.#making.run(
      `pull ${name}`,
      (shared) =>
        this.#make({ name, kind: "pulled", description: "" }, shared, (work, abort) => {
          const { privateHosts } = this.#options;
          const input = {
            ...{ reference, work, certificates, privateHosts },
            folder: this.#folder,
            limits: this.#limits,
          };
          return pullImage(input, abort);
        }),
      options,
    );
  }

  async import(
    name: string,
    source: Parameters<ImageStore["import"]>[1],
    options: ImageOptions,
  ): Promise<ImageDescription> {
    try {
      await this.#checkImportedName(name);
      const what = { name, kind: "imported", description: "" } as const;
      return await this.#make(what, options, (work, abort) =>
        importImage({ source, work, folder: this.#folder, limits: this.#limits }, abort),
      );
    } finally {
      source.destroy();
    }
  }

  async remove(nameOrId: string, usedBy: readonly string[]): Promise<void> {
    if (nameOrId === hostDescription.id)
      throw fail("invalid_request", "The image host is this host's own programs; it cannot be removed.");
    const found = await this.#find(nameOrId);
    if (found === null) throw await this.#notFound(nameOrId);
    await this.#changing.run(() => this.#remove(nameOrId, found, usedBy));
  }

  close(): Promise<void> {
    return this.#making.close(fail("creation_aborted", "The server is shutting down."));
  }

  /** Makes an image in a folder of its own, of which nothing is left, and gives it its name. */
  async #make(
    name: Pick<ImageName, "name" | "kind" | "description">,
    options: ImageOptions,
    make: (work: string, options: ImageOptions) => Promise<{ manifest: ImageManifest; source: string }>,
  ): Promise<ImageDescription> {
    if (process.geteuid?.() !== 0)
      throw imageFailed("Images need a server that is root: their files keep their owners.", {
        hint: "Start it as root.",
      });
    await checkFreeDisk(this.#folder, this.#limits.freeDiskBytes);
    const signal = AbortSignal.any([options.signal, AbortSignal.timeout(this.#limits.timeoutMs)]);
    const work = join(this.#folder, "incoming", randomUUID());
    await mkdir(work);
    await chmod(work, 0o711);
    try {
      const { manifest, source } = await make(work, { ...options, signal });
      const named = { ...name, source, id: manifest.id, createdAt: new Date().toISOString() };
      await this.#changing.run(() => this.#setName(named));
      return describeName(named, manifest);
    } catch (error) {
      throw signal.aborted && !options.signal.aborted ? tookTooLong(this.#limits.timeoutMs) : error;
    } finally {
      await removeTree(work);
    }
  }

  /** What had this name until now keeps its id as one, so that machines and `list` still know it. */
  async #setName(name: ImageName): Promise<void> {
    if ((await this.#manifest(name.id)) === null)
      throw imageFailed(`The image ${name.name} was removed while it was made.`, { hint: "Make it again." });
    const before = await this.#names.find(name.name);
    if (before !== null && before.id !== name.id) {
      const others = (await this.#names.all()).filter(({ id }) => id === before.id);
      if (others.length === 1) await this.#names.set({ ...before, name: before.id });
    }
    await this.#names.set(name);
    await this.#names.remove(name.id);
  }

  async #remove(nameOrId: string, { id, name: ownName }: ImageName, usedBy: readonly string[]): Promise<void> {
    const names = (await this.#names.all()).filter((name) => name.id === id);
    const gone = nameOrId === id ? names : names.filter(({ name }) => name === ownName);
    if (gone.length === names.length && usedBy.length > 0) throw inUse(nameOrId, usedBy);
    for (const { name } of gone) await this.#names.remove(name);
    if (gone.length < names.length) return;
    // Out of sight by one rename; a crash after it leaves the rest to the next start.
    const trash = join(this.#folder, "incoming", randomUUID());
    await rename(this.#path(id), trash).catch(ignoreMissing);
    await removeTree(trash);
  }

  /** A name as it is, an id, or a reference that a registry would understand. */
  async #find(nameOrId: string): Promise<ImageName | null> {
    const exact = await this.#names.find(nameOrId);
    if (exact !== null) return exact;
    const all = await this.#names.all();
    if (/^sha256:[0-9a-f]{64}$/.test(nameOrId)) return all.find(({ id }) => id === nameOrId) ?? null;
    try {
      const full = nameOf(parseReference(nameOrId));
      return all.find(({ name, source }) => name === full || source === full) ?? null;
    } catch (error) {
      if (error instanceof SandpoolError) return null;
      throw error;
    }
  }

  async #checkImportedName(name: string): Promise<void> {
    const taken = name === hostDescription.name || (await this.#recipes()).some((recipe) => recipe.name === name);
    if (importedName.test(name) && !taken) return;
    throw fail("invalid_request", `An imported image cannot be named ${JSON.stringify(name.slice(0, 200))}.`, {
      hint: taken
        ? "That is the name of an image of Sandpool's own; choose another."
        : `Names match ${importedName.source}.`,
      details: { received: name.slice(0, 200) },
    });
  }

  async #notFound(nameOrId: string): Promise<SandpoolError> {
    const recipes = (await this.#recipes()).map(({ name }) => name);
    const hint = recipes.includes(nameOrId)
      ? `Build it once: sandpool image build ${nameOrId}`
      : nameOrId.includes("/")
        ? `Pull it once: sandpool image pull ${nameOrId}`
        : `There are host and the recipes ${recipes.join(", ")}; sandpool image list shows all, pull and import bring more.`;
    return fail("image_not_found", `There is no image ${JSON.stringify(nameOrId.slice(0, 200))} on this host.`, {
      hint,
    });
  }

  #recipes(): ReturnType<typeof readRecipes> {
    return readRecipes(this.#options.recipes ?? recipesFolder);
  }

  #manifest(id: string): Promise<ImageManifest | null> {
    return readManifest(this.#path(id));
  }

  #path(id: string): string {
    return join(this.#folder, id.slice("sha256:".length));
  }
}

function inUse(name: string, usedBy: readonly string[]): SandpoolError {
  return fail("image_in_use", `${usedBy.length} machines still use the image ${JSON.stringify(name.slice(0, 200))}.`, {
    hint: `Delete them first: ${usedBy.slice(0, 10).join(", ")}`,
    details: { machines: usedBy.slice(0, 100) },
  });
}

function tookTooLong(limitMs: number): SandpoolError {
  return fail("deadline_passed", `The image was not ready after ${limitMs / 1000} s, and was given up.`, {
    hint: "Try again; a slow network may need a mirror or a registry that is nearer.",
  });
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}
