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

/** Waits for the end of a process and for all that it writes. */
export function collect(child: ReturnType<typeof spawn>): Promise<Ended> {
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

export interface EndedWithBytes {
  code: number | null;
  stdout: Buffer;
  stderr: string;
}

/** Runs the command with bytes on its standard input, closed after them; `null` leaves it open for ever. */
export function sandpoolWithInput(
  variables: NodeJS.ProcessEnv,
  input: Uint8Array | string | null,
  ...args: string[]
): Promise<EndedWithBytes> {
  const child = spawn(COMMAND, args, { env: variables, stdio: "pipe" });
  child.stdin.on("error", () => undefined);
  if (input !== null) child.stdin.end(input);
  return new Promise((resolve, reject) => {
    const stdout: Buffer[] = [];
    let stderr = "";
    child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout: Buffer.concat(stdout), stderr }));
  });
}
