import { realpath, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { SandpoolError } from "../errors.ts";
import { type ArchiveEntry, collectFolder, sortEntries } from "./collect.ts";
import { readPythonHelper } from "./helper.ts";
import { type Archive, packEntries } from "./pack.ts";

/**
 * Packs an environment: a folder with `env.py` (else an executable `env`), or one file that is the environment itself. The
 * Python helper is added as the folder `sandpool/env/` unless there is a `sandpool/env.py` or `sandpool/env/` already.
 */
export async function packEnvironment(environmentPath: string): Promise<Archive> {
  const source = resolve(environmentPath);
  const facts = await stat(source).catch((cause: NodeJS.ErrnoException) => {
    throw new SandpoolError("bad_environment", `The environment ${source} cannot be read: ${cause.code}.`, {
      cause,
      hint: "Give the path of a folder with env.py, or of one program.",
    });
  });
  if (!facts.isDirectory() && !facts.isFile()) throw noEntry(source, "it is neither a folder nor a file");
  const entries = facts.isDirectory()
    ? await collectFolder(await realpath(source))
    : [singleFile(source, (facts.mode & 0o100) !== 0)];
  const entry = facts.isDirectory() ? chooseEntry(source, entries) : basename(source);
  return packEntries(await withHelper(entries), entry);
}

function singleFile(source: string, executable: boolean): ArchiveEntry {
  if (!executable && !source.endsWith(".py")) throw noEntry(source, "it is neither a .py file nor executable");
  return { kind: "file", path: basename(source), executable, source };
}

function chooseEntry(source: string, entries: readonly ArchiveEntry[]): string {
  const byPath = new Map(entries.map((entry) => [entry.path, entry]));
  const python = byPath.get("env.py");
  if (python !== undefined && python.kind !== "folder") return "env.py";
  const program = byPath.get("env");
  if (program === undefined || program.kind === "folder") throw noEntry(source, "it has neither env.py nor env");
  if (program.kind === "file" && !program.executable) throw noEntry(source, "its file env is not executable");
  return "env";
}

async function withHelper(entries: ArchiveEntry[]): Promise<ArchiveEntry[]> {
  const present = new Set(entries.map((entry) => entry.path));
  if (present.has("sandpool/env.py") || present.has("sandpool/env")) return entries;
  const added: ArchiveEntry[] = [];
  if (!present.has("sandpool")) added.push({ kind: "folder", path: "sandpool" });
  if (!present.has("sandpool/__init__.py")) {
    added.push({ kind: "file", path: "sandpool/__init__.py", executable: false, source: new Uint8Array() });
  }
  return sortEntries([...entries, ...added, ...(await readPythonHelper())]);
}

function noEntry(source: string, reason: string): SandpoolError {
  return new SandpoolError("bad_environment", `${source} is no environment: ${reason}.`, {
    hint: "Expected a folder with env.py or an executable env, or one .py or executable file (chmod +x).",
  });
}
