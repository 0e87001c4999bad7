import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { asObject } from "../config.ts";
import { imageFailed } from "../failed.ts";

/** What an image is built from; one file of JSON each in `packages/worker/recipes`. */
export interface Recipe {
  name: string;
  description: string;
  /** Debian's name of a release: `trixie`. */
  release: string;
  /** Debian packages, besides the smallest system. */
  packages: string[];
  /** Requirement lines with hashes, installed for the system's Python. */
  python: string[];
  /** Symbolic links to make, by path. */
  links: Record<string, string>;
  environment: Record<string, string>;
}

/** Raised when the same recipe would be built to something else. */
const buildVersion = 1;

/** Beside the sources, in a checkout and in the package. */
export const recipesFolder = join(import.meta.dirname, "../../../recipes");

export async function readRecipes(folder: string): Promise<Recipe[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".json")).sort();
  return await Promise.all(
    files.map(async (file) => parseRecipe(file.slice(0, -".json".length), await readFile(join(folder, file), "utf8"))),
  );
}

/** Equal ones give the same image, but for what the package indexes have newly. */
export function recipeKey(recipe: Recipe): string {
  const { description: _, ...built } = recipe;
  const text = JSON.stringify(["sandpool-recipe", buildVersion, process.arch, built]);
  return createHash("sha256").update(text).digest("hex");
}

function parseRecipe(name: string, text: string): Recipe {
  const refuse = (what: string): Error =>
    imageFailed(`The recipe ${name} is wrong: ${what}.`, { hint: "Mend its file." });
  const parsed = asObject(JSON.parse(text), `recipe ${name}`);
  const { description, release, packages = [], python = [], links = {}, environment = {}, ...rest } = parsed;
  for (const member of Object.keys(rest)) throw refuse(`it has the unknown member ${JSON.stringify(member)}`);
  if (typeof description !== "string") throw refuse("description is no text");
  if (typeof release !== "string" || !/^[a-z]+$/.test(release)) throw refuse("release is no name of a Debian release");
  const lists: [string, unknown, RegExp][] = [
    ["packages", packages, /^[a-z0-9][a-z0-9+.-]*$/],
    ["python", python, /^[A-Za-z0-9][\w.[\]-]*==\S+( --hash=sha256:[0-9a-f]{64})+$/],
  ];
  for (const [member, list, pattern] of lists)
    if (!Array.isArray(list) || !list.every((item) => typeof item === "string" && pattern.test(item)))
      throw refuse(`${member} has an item that does not match ${pattern.source}`);
  for (const [member, map] of Object.entries({ links, environment }))
    if (!Object.values(asObject(map, member)).every((value) => typeof value === "string" && !value.includes("\0")))
      throw refuse(`${member} has a value that is no text`);
  if (!Object.entries(links as object).every((link) => link.every((path) => /^\/[\w./-]+$/.test(path))))
    throw refuse("links are absolute paths of plain characters");
  return { name, description, release, packages, python, links, environment } as Recipe;
}
