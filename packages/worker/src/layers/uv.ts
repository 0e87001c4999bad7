import { execFile } from "node:child_process";
import { access, constants, realpath } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { fail } from "../fail.ts";

const run = promisify(execFile);

export interface UvProgram {
  path: string;
  version: string;
}

/** The `uv` to install dependencies with: `SANDPOOL_UV`, the checkout's `.venv`, or the first on PATH. @throws `dependency_failed` */
export async function findUv(): Promise<UvProgram> {
  const named = process.env.SANDPOOL_UV;
  const checkout = join(import.meta.dirname, "../../../..");
  const candidates =
    named !== undefined && named !== ""
      ? [named]
      : [
          join(checkout, ".venv/bin/uv"),
          join(checkout, "python/.venv/bin/uv"),
          ...(process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, "uv")),
        ];
  for (const candidate of candidates) {
    const found = await executable(candidate);
    if (found === null) continue;
    const { stdout } = await run(found, ["--version"], { env: {}, timeout: 20_000 });
    return { path: found, version: stdout.trim() };
  }
  throw fail("dependency_failed", "The environment has dependencies, and this host has no uv to install them with.", {
    hint: "Install uv (for example `pip install uv`) where the server finds it, or name it in SANDPOOL_UV.",
    details: { looked_at: named !== undefined && named !== "" ? [named] : ["<checkout>/.venv/bin/uv", "PATH"] },
  });
}

async function executable(path: string): Promise<string | null> {
  try {
    const real = await realpath(path);
    await access(real, constants.X_OK);
    return real;
  } catch {
    return null;
  }
}
