import { Sandpool } from "sandpool";
import { EXIT, UsageError } from "../../output/failure.ts";
import { type Output, safe } from "../../output/output.ts";
import { exitCodeOf, report, reportOwnFailure } from "./ending.ts";
import { relay } from "./relay.ts";
import { isTerminal, terminalSize, terminalVariables } from "./terminal.ts";

export interface ExecFlags {
  timeout?: number;
  cwd?: string;
  user?: string;
  env?: Record<string, string>;
  tty?: boolean;
  detach: boolean;
  shell: boolean;
  argv: boolean;
}

/**
 * Runs a program: standard input goes in where it is no terminal, output comes out on the right stream, the exit code is passed on
 * (124 for a timeout). Where both ends are a terminal the program has one too.
 */
export async function execInMachine(
  output: Output,
  machine: string,
  command: readonly string[],
  flags: ExecFlags,
): Promise<number> {
  try {
    const program = readCommand(command, flags);
    const { cwd, user, timeout } = flags;
    const request = { ...program, cwd, user, environment: flags.env, timeoutSeconds: timeout };
    if (flags.detach) return await startDetached(output, machine, request);
    if (output.json) return await runForDocument(output, machine, request);
    return await runHere(output, machine, request, flags.tty ?? isTerminal());
  } catch (error) {
    return reportOwnFailure(error, output, machine);
  }
}

type Request = Parameters<Sandpool["machines"]["startExec"]>[1];

/** One argument is a line for the shell, several are a program and its arguments. */
function readCommand(command: readonly string[], { shell, argv }: ExecFlags): { command: string } | { argv: string[] } {
  if (shell && argv) {
    throw new UsageError("--shell and --argv were both given; expected one of them at most.", "Leave one of them out.");
  }
  return shell || (!argv && command.length === 1) ? { command: command.join(" ") } : { argv: [...command] };
}

async function startDetached(output: Output, machine: string, request: Request): Promise<number> {
  const started = await new Sandpool().machines.startExec(machine, request);
  if (output.json) output.document(started);
  else {
    output.line(safe(started.id));
    output.note(`It runs on; "sandpool machine attach ${safe(machine)} ${safe(started.id)}" joins it.`);
  }
  return EXIT.ok;
}

async function runForDocument(output: Output, machine: string, request: Request): Promise<number> {
  const stdin = process.stdin.isTTY ? undefined : process.stdin;
  const outcome = await new Sandpool().machines.exec(machine, { ...request, stdin });
  output.document(outcome.wire);
  return exitCodeOf(outcome);
}

async function runHere(output: Output, machine: string, request: Request, tty: boolean): Promise<number> {
  const input = tty || !process.stdin.isTTY;
  const environment = tty ? { ...terminalVariables(), ...request.environment } : request.environment;
  const stream = await new Sandpool().machines.streamExec(machine, {
    ...request,
    environment,
    ...(input && { stdin: true }),
    ...(tty && { tty: terminalSize() }),
  });
  return report(output, machine, stream.id, await relay(stream, { tty, input, signals: "forward" }));
}
