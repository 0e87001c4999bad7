import { createInterface } from "node:readline/promises";
import { UsageError } from "./failure.ts";

/** Asks a yes-or-no question at the terminal; anything but yes is no. Without a terminal `--yes` has to be given. */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new UsageError(`This asks first: ${question} But there is no terminal to answer at.`, "Give --yes.");
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new AbortController();
  terminal.once("close", () => closed.abort());
  try {
    return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `, { signal: closed.signal })).trim());
  } catch (error) {
    if (closed.signal.aborted) return false;
    throw error;
  } finally {
    terminal.close();
  }
}
