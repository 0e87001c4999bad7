import type { ExecRequest, Terminal } from "@sandpool/protocol";
import { ArgumentError } from "../../errors.ts";
import { describe } from "../../values/describe.ts";
import { checkNames, checkSeconds } from "../options.ts";

/** What is run. Exactly one of `command` and `argv`. */
export interface ExecOptions {
  /** A line for the machine's shell. */
  command?: string | undefined;
  /** A program and its arguments, without a shell. */
  argv?: readonly string[] | undefined;
  /** Absolute, or relative to the user's home. Default: the image's own, else the home. */
  cwd?: string | undefined;
  /** Added to the machine's own. */
  environment?: Readonly<Record<string, string>> | undefined;
  /** A name, `uid` or `uid:gid`. Default: the image's own, else root. */
  user?: string | undefined;
  /** The whole tree is ended then: TERM, and after two seconds KILL. Default: none. */
  timeoutSeconds?: number | undefined;
  /** Ends the wait, and with it the program. */
  signal?: AbortSignal | undefined;
}

export const EXEC_NAMES = ["command", "argv", "cwd", "environment", "user", "timeoutSeconds", "signal"] as const;

/** The members that every way to run a program shares, checked. */
export function toExecRequest(options: ExecOptions, further: readonly string[] = []): ExecRequest {
  checkNames(options, [...EXEC_NAMES, ...further]);
  const { command, argv, cwd, environment, user, timeoutSeconds } = options;
  if ((command === undefined) === (argv === undefined)) {
    throw new ArgumentError(
      `command is ${describe(command)} and argv ${describe(argv)}; expected exactly one of them.`,
      { hint: "command is a line for the shell, argv a list of the program and its arguments." },
    );
  }
  checkSeconds("timeoutSeconds", timeoutSeconds);
  return {
    ...(command !== undefined && { command }),
    ...(argv !== undefined && { argv: [...argv] }),
    ...(cwd !== undefined && { cwd }),
    ...(environment !== undefined && { environment: { ...environment } }),
    ...(user !== undefined && { user }),
    ...(timeoutSeconds !== undefined && { timeout: timeoutSeconds }),
  };
}

/** The size of a terminal, checked. */
export function toTerminal(terminal: Terminal): Terminal {
  for (const [name, value] of Object.entries(terminal)) {
    if (!Number.isInteger(value) || value < 1 || value > 65_535) {
      throw new ArgumentError(`${name} is ${describe(value)}; expected a whole number from 1 to 65535.`);
    }
  }
  return { rows: terminal.rows, columns: terminal.columns };
}
