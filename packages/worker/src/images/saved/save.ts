import type { LayerFile } from "../assemble.ts";
import { asObject, type ImageConfig, parseJson, readImageDocument } from "../config.ts";
import { imageFailed } from "../failed.ts";
import type { ImageLimits } from "../limits.ts";
import { checkDocument } from "../manifests.ts";
import { fileOf, readSmall } from "./layout.ts";
import type { SavedFiles } from "./spread.ts";

/** Reads what `docker save` writes: `manifest.json` names a configuration and the layers' files. */
export async function readSave(
  files: SavedFiles,
  limits: ImageLimits,
): Promise<{ layers: LayerFile[]; config: ImageConfig }> {
  const images = parseJson(await readSmall(files, "manifest.json"), "manifest.json");
  if (!Array.isArray(images) || images.length !== 1)
    throw imageFailed(`manifest.json names ${Array.isArray(images) ? images.length : "no"} images; one was expected.`, {
      hint: "Save one image only.",
    });
  const { Config: config, Layers: names } = asObject(images[0], "manifest.json");
  if (typeof config !== "string" || !Array.isArray(names) || !names.every((name) => typeof name === "string"))
    throw imageFailed("manifest.json has no Config and Layers.", { hint: "Expected what docker save writes." });
  if (names.length > limits.layers)
    throw imageFailed(`The image has ${names.length} layers; at most ${limits.layers} are allowed.`);
  const document = readImageDocument(await readSmall(files, config));
  checkDocument(document, names.length);
  const layers = names.map((name, at): LayerFile => {
    return { path: fileOf(files, name), diffId: document.diffIds[at] ?? null, whiteouts: true };
  });
  return { layers, config: document.config };
}
