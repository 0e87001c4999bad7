import type { Command } from "commander";
import { candidates } from "../completion/candidates.ts";
import { SCRIPTS } from "../completion/scripts.ts";
import { EXIT } from "../output/failure.ts";
import type { Output } from "../output/output.ts";

/** Prints the script that a shell reads: `source <(sandpool completion bash)`. */
export async function printScript(output: Output, shell: "bash" | "zsh" | "fish"): Promise<number> {
  if (output.json) output.document({ shell, script: SCRIPTS[shell] });
  else process.stdout.write(SCRIPTS[shell]);
  return EXIT.ok;
}

/** What the scripts call: the words after `sandpool`, the last one half typed; prints one candidate a line, and no failure ever. */
export async function complete(program: Command, words: readonly string[]): Promise<number> {
  for (const candidate of await candidates(program, words).catch(() => [])) process.stdout.write(`${candidate}\n`);
  return EXIT.ok;
}
