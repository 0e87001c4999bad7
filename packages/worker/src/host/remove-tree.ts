import { runTool } from "./run.ts";

const LIMIT_MS = 10 * 60_000;

/**
 * Removes a tree that foreign code wrote; one that does not exist is removed already. Such a tree may be deeper than a path can be long, and
 * as an ordinary user also shut by its modes: Node's own `rm` fails on both.
 */
export async function removeTree(path: string): Promise<void> {
  if ((await remove(path)).code === 0) return;
  await runTool("chmod", ["-R", "u+rwX", "--", path], { timeoutMs: LIMIT_MS });
  const { code, signal, stderr } = await remove(path);
  if (code === 0) return;
  throw new Error(`${path} could not be removed (rm ended with ${signal ?? code}): ${stderr.trim().slice(0, 300)}`);
}

function remove(path: string): ReturnType<typeof runTool> {
  return runTool("rm", ["-rf", "--", path], { timeoutMs: LIMIT_MS });
}
