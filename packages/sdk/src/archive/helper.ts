import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SandpoolError } from "../errors.ts";
import type { ArchiveEntry } from "./collect.ts";

// The published package carries a copy the build made; a checkout reads the one source.
const CANDIDATES = ["../../assets/env", "../../../../python/src/sandpool/env"];

/** The Python helper, the folder `sandpool/env/` that is put beside an environment's code, as entries of an archive. */
export async function readPythonHelper(): Promise<ArchiveEntry[]> {
  const folders = CANDIDATES.map((candidate) => fileURLToPath(new URL(candidate, import.meta.url)));
  const folder = folders.find((candidate) => existsSync(candidate));
  if (folder === undefined) {
    throw new SandpoolError("bad_environment", `The Python helper was not found; looked at ${folders.join(" and ")}.`, {
      hint: "Install the package again; in a checkout, restore python/src/sandpool/env.",
    });
  }
  const names = (await readdir(folder)).filter((name) => name.endsWith(".py"));
  const files = names.map(
    (name): ArchiveEntry => ({
      kind: "file",
      path: `sandpool/env/${name}`,
      executable: false,
      source: join(folder, name),
    }),
  );
  return [{ kind: "folder", path: "sandpool/env" }, ...files];
}
