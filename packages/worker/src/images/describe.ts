import type { ImageDescription, ResolvedImage } from "./contract.ts";
import type { ImageManifest } from "./manifest.ts";
import type { ImageName } from "./names.ts";
import type { Recipe } from "./recipes/recipe.ts";

const allowed = { allowed: true, reason: null };

export const hostImage: ResolvedImage = {
  ...{ id: "host", name: "host", image: { kind: "host" }, environ: {}, user: null, cwd: null },
  drivers: { namespace: allowed, gvisor: allowed },
};

export const hostDescription: ImageDescription = {
  ...{ id: "host", name: "host", kind: "host", source: null, bytes: null, created_at: null },
  description: "this host's own /usr, read-only, and a small made /etc; nothing to build or download",
};

export function describeName(name: ImageName, manifest: ImageManifest): ImageDescription {
  const { kind, source, description, createdAt } = name;
  return { id: name.id, name: name.name, kind, source, bytes: manifest.bytes, created_at: createdAt, description };
}

/** All images, and the recipes that could be built, `host` first. */
export async function describeImages(
  names: readonly ImageName[],
  recipes: readonly Recipe[],
  manifestOf: (id: string) => Promise<ImageManifest | null>,
): Promise<ImageDescription[]> {
  const made: ImageDescription[] = [];
  for (const name of names) {
    const manifest = await manifestOf(name.id);
    if (manifest !== null) made.push(describeName(name, manifest));
  }
  const built = new Set(made.filter(({ kind }) => kind === "recipe").map(({ name }) => name));
  const unbuilt = recipes.filter(({ name }) => !built.has(name)).map(describeRecipe);
  return [hostDescription, ...[...made, ...unbuilt].sort((one, other) => (one.name < other.name ? -1 : 1))];
}

function describeRecipe({ name, description }: Recipe): ImageDescription {
  return { ...{ id: null, name, kind: "recipe", source: null, bytes: null, created_at: null }, description } as const;
}
