import { stat } from "node:fs/promises";
import { basename, join, posix, resolve } from "node:path";
import { NotFoundError, Sandpool } from "sandpool";
import { ContentWriter } from "../../output/content.ts";
import { EXIT, UsageError } from "../../output/failure.ts";
import { type Output, safe } from "../../output/output.ts";
import { ProgressBar } from "../../output/progress.ts";
import { type Location, readLocation } from "./location.ts";

interface CopyFlags {
  user?: string;
}

type Inside = Extract<Location, { kind: "inside" }>;

/** Copies as `cp -r` does: into a target that is a folder, else to the target's own name. One end is inside a machine. */
export async function copy(output: Output, source: string, target: string, flags: CopyFlags): Promise<number> {
  const [from, to] = [readLocation(source), readLocation(target)];
  if ((to.kind === "inside") === (from.kind === "inside")) throw notOneInside(source, target);
  const copier = new Copier(output, flags.user);
  if (to.kind === "inside" && from.kind === "stream") return copier.report(await copier.write(to));
  if (to.kind === "inside" && from.kind === "local") return copier.report(await copier.upload(from.path, to));
  if (from.kind === "inside" && to.kind === "stream") return copier.print(from);
  if (from.kind === "inside" && to.kind === "local") return copier.report(await copier.download(from, to.path));
  throw notOneInside(source, target);
}

function notOneInside(source: string, target: string): UsageError {
  return new UsageError(
    `The source is ${JSON.stringify(source)} and the target ${JSON.stringify(target)}; expected exactly one of them inside a machine.`,
    "Inside is written NAME:/PATH. From one machine to another it goes through a pipe: cp A:/x - | cp - B:/x.",
  );
}

/** What was copied where. */
interface Copied {
  target: string;
  bytes: number;
  sha256?: string;
  entries?: number;
  skipped?: { path: string; reason: string }[];
}

class Copier {
  readonly #output: Output;
  readonly #files = new Sandpool().machines.files;
  readonly #bar: ProgressBar;
  readonly #options;

  constructor(output: Output, user: string | undefined) {
    this.#output = output;
    this.#bar = new ProgressBar(output);
    const onProgress = (bytes: number, total: number | null): void => {
      this.#bar.show(`${(bytes / 2 ** 20).toFixed(1)} MiB`, bytes, total ?? bytes);
    };
    this.#options = { user, onProgress };
  }

  async write({ machine, path }: Inside): Promise<Copied> {
    if (path.endsWith("/")) {
      throw new UsageError(
        `Standard input would be copied to the folder ${JSON.stringify(path)}; expected a file's name.`,
        "Give the whole path.",
      );
    }
    const written = await this.#files.write(machine, path, process.stdin, this.#options);
    return { target: `${machine}:${path}`, ...written };
  }

  async upload(local: string, { machine, path }: Inside): Promise<Copied> {
    const isFolder = path.endsWith("/") || (await this.#isFolderInside(machine, path));
    const target = isFolder ? posix.join(path, basename(resolve(local))) : path;
    const written = await this.#files.upload(machine, local, target, this.#options);
    return { target: `${machine}:${target}`, ...written };
  }

  async download({ machine, path }: Inside, local: string): Promise<Copied> {
    const isFolder = local.endsWith("/") || (await isLocalFolder(local));
    // The root has no name of its own.
    const target = isFolder ? join(local, posix.basename(path)) : local;
    return { target, ...(await this.#files.download(machine, path, target, this.#options)) };
  }

  /** A file's bytes, or a folder as tar, on standard output. */
  async print({ machine, path }: Inside): Promise<number> {
    const { user } = this.#options;
    const { kind } = await this.#files.stat(machine, path, { user, follow: true });
    const content =
      kind === "folder"
        ? await this.#files.readTree(machine, path, { user })
        : await this.#files.readStream(machine, path, { user });
    const writer = new ContentWriter(process.stdout);
    for await (const chunk of content) if (!(await writer.write(chunk as Buffer))) break;
    await writer.end();
    return EXIT.ok;
  }

  report(copied: Copied): number {
    this.#bar.stop();
    const { skipped = [] } = copied;
    for (const { path, reason } of skipped) this.#output.note(`left out ${safe(path)}: ${safe(reason)}`);
    if (this.#output.json) this.#output.document(copied);
    else if (this.#output.interactive) this.#output.note(`${copied.bytes} bytes to ${safe(copied.target)}`);
    return EXIT.ok;
  }

  async #isFolderInside(machine: string, path: string): Promise<boolean> {
    try {
      const { user } = this.#options;
      return (await this.#files.stat(machine, path, { user, follow: true })).kind === "folder";
    } catch (error) {
      if (error instanceof NotFoundError && error.code === "file_not_found") return false;
      throw error;
    }
  }
}

async function isLocalFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (facts) => facts.isDirectory(),
    () => false,
  );
}
