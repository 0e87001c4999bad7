import { spawn } from "node:child_process";
import { join } from "node:path";
import { COMMAND } from "../../../sdk/test/support/server.ts";
import { collect } from "./command.ts";

/** What the person at the terminal does next; text is one character a byte. */
export type Step =
  | { until: string }
  | { type: string }
  | { size: [rows: number, columns: number] }
  | { signal: number };

export interface Sat {
  code: number | null;
  /** All that came to the terminal, one character a byte. */
  output: string;
  /** Whether the terminal is afterwards as it was before. */
  restored: boolean;
}

/** Runs the command in a real terminal of its own, with somebody before it. */
export async function atTerminal(
  variables: NodeJS.ProcessEnv,
  steps: readonly Step[],
  ...args: string[]
): Promise<Sat> {
  const helper = join(import.meta.dirname, "terminal.py");
  const child = spawn("/usr/bin/python3", [helper, JSON.stringify(steps), COMMAND, ...args], {
    env: { ...variables, TERM: "xterm-256color" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { code, stdout, stderr } = await collect(child);
  if (code !== 0) throw new Error(`the terminal's helper ended with ${code}: ${stderr}`);
  return JSON.parse(stdout) as Sat;
}
