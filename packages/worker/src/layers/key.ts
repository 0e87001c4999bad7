import { createHash } from "node:crypto";
import { realpath, stat } from "node:fs/promises";
import { fail } from "../fail.ts";
import type { Dependencies } from "./dependencies.ts";

export interface LayerInputs {
  dependencies: Dependencies;
  /** Part of the key only when the dependencies name files of the archive. */
  archiveSha256: string;
  pythonPath: string;
  uvVersion: string;
  indexes: readonly string[];
  isolated: boolean;
}

/** The name of a layer: equal keys mean that the same would be installed. */
export async function layerKey(inputs: LayerInputs): Promise<string> {
  const python = await identifyPython(inputs.pythonPath);
  const parts = [
    "sandpool-layer/1",
    inputs.dependencies.kind,
    inputs.dependencies.text,
    inputs.dependencies.local ? inputs.archiveSha256 : "",
    inputs.pythonPath,
    python,
    `${process.platform}-${process.arch}`,
    inputs.uvVersion,
    ...inputs.indexes,
    inputs.isolated ? "isolated" : "unisolated",
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/**
 * The real file with its size and time of change stands for the interpreter's version: the path comes from the client, so it is never run
 * outside a sandbox to be asked.
 */
async function identifyPython(path: string): Promise<string> {
  try {
    const real = await realpath(path);
    const { size, mtimeMs } = await stat(real);
    return `${real} ${size} ${mtimeMs}`;
  } catch (cause) {
    throw fail("invalid_request", `python: there is no ${JSON.stringify(path)} on this host.`, {
      hint: "Name the absolute path of an installed interpreter, such as /usr/bin/python3.",
      details: { python: path },
      cause,
    });
  }
}
