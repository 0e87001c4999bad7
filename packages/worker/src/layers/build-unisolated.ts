import { spawn } from "node:child_process";
import { join } from "node:path";
import type { SandboxExit } from "../drivers/driver.ts";
import { removeTree } from "../host/remove-tree.ts";
import { type BuildInputs, findCertificates, installFailed, installProgress } from "./build.ts";
import { installArgv, installEnviron } from "./install.ts";
import type { LayerProgress } from "./store.ts";

const outputLimitCharacters = 64 * 1024;

/** Installs dependencies into `folder/venv` as this user, for the driver that isolates nothing. The environment can be moved as a whole. */
export async function buildUnisolated(
  inputs: BuildInputs,
  folder: string,
  signal: AbortSignal,
  progress: LayerProgress,
): Promise<void> {
  const venv = join(folder, "venv");
  const [file = "", ...args] = installArgv(
    inputs.uv.path,
    inputs.pythonPath,
    venv,
    join(inputs.tree, inputs.dependencies.file),
  );
  const environ = { ...installEnviron(inputs.index, venv, findCertificates(), false), UV_VENV_RELOCATABLE: "1" };
  let output = "";
  const exit = await new Promise<SandboxExit>((resolve, reject) => {
    const child = spawn(file, args, {
      cwd: inputs.tree,
      env: environ,
      signal,
      timeout: inputs.timeoutMs,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output = (output + chunk.toString("utf8")).slice(-outputLimitCharacters);
        progress(...installProgress(output));
      });
    }
    child.once("error", reject);
    child.once("close", (code, name) => resolve({ code, signal: name }));
  });
  signal.throwIfAborted();
  if (exit.code !== 0) throw installFailed(output, exit, null, []);
  for (const temporary of [".cache", ".tmp"]) await removeTree(join(venv, temporary));
}
