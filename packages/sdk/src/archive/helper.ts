import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { SandpoolError } from "../errors.ts";

// The published package carries a copy the build made; a checkout reads the one source.
const CANDIDATES = ["../../assets/env.py", "../../../../python/src/sandpool/env.py"];

/** The Python helper `sandpool/env.py` that is put beside an environment's code. */
export async function readPythonHelper(): Promise<Uint8Array> {
  const paths = CANDIDATES.map((candidate) => fileURLToPath(new URL(candidate, import.meta.url)));
  const path = paths.find((candidate) => existsSync(candidate));
  if (path !== undefined) return readFile(path);
  throw new SandpoolError("bad_environment", `The Python helper was not found; looked at ${paths.join(" and ")}.`, {
    hint: "Install the package again; in a checkout, restore python/src/sandpool/env.py.",
  });
}
