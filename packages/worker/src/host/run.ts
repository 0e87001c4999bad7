import { spawn } from "node:child_process";

export interface Finished {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

const LIMIT_CHARACTERS = 64 * 1024;

/** The path helpers are looked up in, whatever the server's own environment says. */
export const TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/**
 * Runs a host tool with an argument array and a clean environment. A failed command is a value, a missing one too (code 127).
 * Output beyond 64 KiB a stream is dropped; after `timeoutMs` it is killed.
 */
export function runTool(
  file: string,
  args: readonly string[],
  options: { timeoutMs?: number; environ?: Record<string, string> } = {},
): Promise<Finished> {
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: TOOL_PATH, LC_ALL: "C", ...options.environ },
      timeout: options.timeoutMs ?? 10_000,
      killSignal: "SIGKILL",
    });
    const output = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (text: string) => {
        output[stream] = (output[stream] + text).slice(0, LIMIT_CHARACTERS);
      });
    }
    child.once("error", (error) => resolve({ code: 127, signal: null, stdout: "", stderr: error.message }));
    child.once("close", (code, signal) => resolve({ code, signal, ...output }));
  });
}
