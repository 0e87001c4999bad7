import { spawn } from "node:child_process";
import { COMMAND } from "../../../sdk/test/support/server.ts";

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the command to its end, without a terminal. */
export function sandpool(variables: NodeJS.ProcessEnv, ...args: string[]): Promise<Ended> {
  const child = spawn(COMMAND, args, { env: variables, stdio: ["ignore", "pipe", "pipe"] });
  return collect(child);
}

/** Runs the command with a terminal on all three streams (util-linux's script), where colours and progress are drawn. */
export function sandpoolInTerminal(variables: NodeJS.ProcessEnv, ...args: string[]): Promise<Ended> {
  const quoted = [COMMAND, ...args].map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`).join(" ");
  const child = spawn("script", ["--quiet", "--return", "--command", quoted, "/dev/null"], {
    env: { ...variables, TERM: "xterm-256color" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return collect(child);
}

function collect(child: ReturnType<typeof spawn>): Promise<Ended> {
  return new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
