import { type Command, CommanderError } from "commander";
import { EXIT, reportFailure, UsageError } from "./output/failure.ts";
import { buildProgram } from "./program.ts";

/** Runs one command line (without node and script) and returns the exit code; never throws. */
export async function run(args: readonly string[]): Promise<number> {
  // What stands after "--" belongs to the program that a machine is to run.
  const own = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  const json = own.includes("--json");
  let exitCode: number = EXIT.ok;
  const program = buildProgram((code) => {
    exitCode = code;
  });
  silenceErrors(program);
  try {
    await program.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return reportFailure(error, { json });
    if (error.exitCode === 0) return EXIT.ok;
    if (error.code === "commander.help") return EXIT.usage;
    return reportFailure(explain(error, findCommand(program, args)), { json });
  }
}

/** Commander's message as received, expected, what to do. */
function explain(error: CommanderError, command: Command): UsageError {
  const received = error.message
    .replace(/^error: /, "")
    .replace(/\s+/g, " ")
    .replace(/\.$/, "");
  return new UsageError(
    `${received}; expected: ${usageOf(command)}.`,
    isForeignOption(error, command)
      ? `Options of the program to run stand after "--": ${nameOf(command)} NAME -- PROGRAM -x.`
      : `Run "${nameOf(command)} --help" for all options.`,
  );
}

function isForeignOption(error: CommanderError, command: Command): boolean {
  return error.code === "commander.unknownOption" && command.registeredArguments.at(-1)?.name() === "command";
}

function usageOf(command: Command): string {
  const flags = command.options.map((option) => `[${option.flags}]`).join(" ");
  const commands = command.commands.map((child) => child.name()).join("|");
  const parameters = command.registeredArguments.map((argument) => `<${argument.name()}>`).join(" ");
  return [nameOf(command), commands, parameters, flags].filter((part) => part !== "").join(" ");
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

/** The command that the arguments lead to, as far as they name one. */
function findCommand(program: Command, args: readonly string[]): Command {
  let command = program;
  for (const arg of args) {
    const child = command.commands.find((candidate) => candidate.name() === arg);
    if (child === undefined) break;
    command = child;
  }
  return command;
}

/** Every message is printed once, escaped, by reportFailure. */
function silenceErrors(command: Command): void {
  command.exitOverride().configureOutput({ outputError: () => undefined });
  for (const child of command.commands) silenceErrors(child);
}
