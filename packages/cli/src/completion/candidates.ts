import type { Command, Option } from "commander";
import { Sandpool } from "sandpool";

// A key press waits for it.
const PATIENCE_MS = 2000;

/** Arguments whose values the server knows. */
const LOOKUPS: Readonly<Record<string, (client: Sandpool) => Promise<string[]>>> = {
  machine: async ({ machines }) => (await machines.list()).map(({ name }) => name),
  pool: async (client) => (await client.listPools()).map(({ id, name }) => name ?? id),
  source: async ({ machines }) => (await machines.list()).map(({ name }) => `${name}:/`),
  target: async ({ machines }) => (await machines.list()).map(({ name }) => `${name}:/`),
};

/** What the last of `words` may become: commands, options, and names of machines and pools. */
export async function candidates(program: Command, words: readonly string[]): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  if (before.includes("--")) return [];
  const { command, operands, pending } = walk(program, before);
  if (pending !== null) return startingWith(typed, pending.argChoices ?? []);
  if (typed.startsWith("-")) return startingWith(typed, optionsOf(command));
  const children = command.commands.filter((child) => !hidden(child)).map((child) => child.name());
  if (children.length > 0) return startingWith(typed, children);
  return startingWith(typed, await argumentValues(command, operands));
}

interface Place {
  command: Command;
  /** Operands of the command so far. */
  operands: number;
  /** An option whose value is being typed. */
  pending: Option | null;
}

function walk(program: Command, words: readonly string[]): Place {
  const place: Place = { command: program, operands: 0, pending: null };
  for (const word of words) {
    if (place.pending !== null) place.pending = null;
    else if (word.startsWith("-")) {
      const option = place.command.options.find(({ long, short }) => word === long || word === short);
      if (option !== undefined && (option.required || option.optional)) place.pending = option;
    } else {
      const child = place.command.commands.find((candidate) => candidate.name() === word);
      if (child === undefined) place.operands += 1;
      else place.command = child;
    }
  }
  return place;
}

function optionsOf(command: Command): string[] {
  const names = command.options.filter((option) => !option.hidden).flatMap(({ long }) => (long ? [long] : []));
  return [...names, "--help"];
}

async function argumentValues(command: Command, operands: number): Promise<string[]> {
  const all = command.registeredArguments;
  const argument = all[operands] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined);
  if (argument === undefined) return [];
  if (argument.argChoices !== undefined) return [...argument.argChoices];
  const lookUp = LOOKUPS[argument.name()];
  if (lookUp === undefined) return [];
  const late = new Promise<string[]>((resolve) => setTimeout(resolve, PATIENCE_MS, []).unref());
  return Promise.race([lookUp(new Sandpool()), late]);
}

/** Only what is a plain word: a shell reads the candidates. */
function startingWith(typed: string, values: readonly string[]): string[] {
  return values.filter((value) => value.startsWith(typed) && /^[\w:/.@-]+$/.test(value));
}

function hidden(command: Command): boolean {
  return command.name().startsWith("__");
}
