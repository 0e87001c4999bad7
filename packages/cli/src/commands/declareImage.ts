import type { Command } from "commander";
import { type Finish, type Flags, leaf, perform, run } from "../leaf.ts";

const commands = () => import("./image.ts");

export function addImageCommands(image: Command, finish: Finish): void {
  leaf(image, "list", "list images, and recipes that can be built").action(
    run(finish, async (output) => (await commands()).listImages(output)),
  );
  leaf(image, "build <recipe>", "build a recipe: python, node, pytorch").action((recipe: string, options: Flags) =>
    perform(finish, options, async (output) => (await commands()).buildImage(output, recipe)),
  );
  leaf(image, "pull <reference>", "pull from a registry, by tag or digest").action(
    (reference: string, options: Flags) =>
      perform(finish, options, async (output) => (await commands()).pullImage(output, reference)),
  );
  leaf(
    image,
    "import <name> <file>",
    'import a tar: OCI layout, docker save, or root file system; "-" reads it in',
  ).action((name: string, file: string, options: Flags) =>
    perform(finish, options, async (output) => (await commands()).importImage(output, name, file)),
  );
  leaf(image, "remove <image...>", "remove images by name or id")
    .option("-y, --yes", "do not ask", false)
    .action((names: string[], options: Flags & { yes: boolean }) =>
      perform(finish, options, async (output) => (await commands()).removeImages(output, names, options)),
    );
}
