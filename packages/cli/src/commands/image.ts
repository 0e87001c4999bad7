import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { formatSize } from "@sandpool/protocol";
import ora from "ora";
import { type Image, type ImageProgress, type MakeImageOptions, Sandpool } from "sandpool";
import { confirm } from "../output/confirm.ts";
import { EXIT, UsageError } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";

export async function listImages(output: Output): Promise<number> {
  const images = await new Sandpool().images.list();
  if (output.json) output.document({ images });
  else output.table(["NAME", "KIND", "ON DISK", "ID", "SOURCE", "DESCRIPTION"], images.map(rowOf));
  return EXIT.ok;
}

export function buildImage(output: Output, recipe: string): Promise<number> {
  return make(output, `building ${recipe}`, (options) => new Sandpool().images.build(recipe, options));
}

export function pullImage(output: Output, reference: string): Promise<number> {
  return make(output, `pulling ${reference}`, (options) => new Sandpool().images.pull(reference, options));
}

/** `-` is standard input. */
export async function importImage(output: Output, name: string, file: string): Promise<number> {
  if (file === "-" && process.stdin.isTTY)
    throw new UsageError("There is no tar on standard input.", "Give a file, or pipe a tar in.");
  if (file !== "-" && !(await stat(file)).isFile())
    throw new UsageError(
      `${file} is not a file.`,
      "Expected a tar: an OCI layout, a docker save, or a root file system.",
    );
  const tar = file === "-" ? process.stdin : createReadStream(file, { highWaterMark: 256 * 1024 });
  return await make(output, `importing ${name}`, (options) => new Sandpool().images.import(name, tar, options));
}

/** Removes images after asking, unless `yes`. */
export async function removeImages(
  output: Output,
  names: readonly string[],
  options: { yes: boolean },
): Promise<number> {
  if (!options.yes && !(await confirm(`Remove ${names.map(safe).join(", ")}?`))) {
    output.note("Nothing was removed.");
    return EXIT.failed;
  }
  const { images } = new Sandpool();
  const removed = [];
  for (const name of names) {
    removed.push(await images.remove(name));
    if (!output.json) output.line(`Removed ${safe(name)}.`);
  }
  if (output.json) output.document({ removed });
  return EXIT.ok;
}

async function make(
  output: Output,
  title: string,
  work: (options: MakeImageOptions) => Promise<Image>,
): Promise<number> {
  const spinner = ora({
    text: safe(title),
    isEnabled: output.interactive,
    isSilent: !output.interactive,
    discardStdin: false,
  }).start();
  const onProgress = (progress: ImageProgress): void => {
    if (output.interactive) spinner.text = `${safe(title)}: ${lineOf(progress)}`;
    else if (progress.text !== undefined) output.note(safe(progress.text));
  };
  try {
    const image = await work({ onProgress }).finally(() => spinner.stop());
    if (output.json) output.document(image);
    else {
      output.line(safe(image.id));
      const size = image.bytes === null ? "" : `, ${formatSize(image.bytes)}`;
      output.note(`${safe(image.name)} is ready${size}; it came from ${safe(image.source)}.`);
    }
    return EXIT.ok;
  } finally {
    spinner.stop();
  }
}

const PHASES: Readonly<Record<string, string>> = {
  resolve: "looking it up",
  download: "downloading",
  unpack: "unpacking layers",
  install: "installing",
  store: "writing it to disk",
};

function lineOf({ phase, done, total, text }: ImageProgress): string {
  const name = PHASES[phase] ?? safe(phase);
  if (text !== undefined) return `${name}: ${safe(text).slice(0, 100)}`;
  const [has, all] = phase === "download" ? [formatSize(done), formatSize(total)] : [done, total];
  return total > 0 ? `${name} ${has} of ${all}` : name;
}

function rowOf({ name, kind, bytes, id, source, description }: Image): (string | null)[] {
  const shortId = id === null ? "(not built)" : id.slice(0, "sha256:".length + 12);
  const from = kind === "pulled" ? (source?.replace(/(@sha256:.{12}).*/, "$1") ?? null) : null;
  return [
    name,
    kind,
    bytes === null ? null : formatSize(bytes),
    shortId,
    from,
    description === "" ? null : description,
  ];
}
