import type { Command } from "commander";
import { Output } from "./output/output.ts";

/** Receives the exit code of the command that ran. */
export type Finish = (code: number) => void;

export interface Flags {
  json: boolean;
}

/** A command that does something; every one of them takes `--json`. */
export function leaf(parent: Command, signature: string, description: string): Command {
  return parent.command(signature).description(description).option("--json", "print one JSON document", false);
}

/** The action of a command without arguments. */
export function run<Options>(finish: Finish, action: (output: Output, options: Options) => Promise<number>) {
  return (options: Options & Flags): Promise<void> => perform(finish, options, (output) => action(output, options));
}

export async function perform(
  finish: Finish,
  options: Flags,
  action: (output: Output) => Promise<number>,
): Promise<void> {
  finish(await action(new Output({ json: options.json })));
}
