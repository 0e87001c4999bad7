import pc from "picocolors";
import { safe, safeLines, toSafeJson } from "./output.ts";

/** Commands end with one of these. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** The command was used wrongly: exit code 2. Says what was received, what was expected and what to do. */
export class UsageError extends Error {
  readonly code = "usage";
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** Something the user asked for failed for a reason they can act on: exit code 1. */
export class CommandFailure extends Error {
  readonly code: string;
  readonly hint: string;

  constructor(code: string, message: string, hint: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.hint = hint;
  }
}

const SYSTEM_HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE: `Another program listens there: give another --listen, or stop it ("sandpool down" if it is a server of this folder).`,
  EADDRNOTAVAIL: "This machine has no such address; give one of its own to --listen.",
  ENOENT: "Check the path; nothing is there.",
};

interface Described {
  code: string;
  message: string;
  hint: string | null;
  details: Record<string, unknown>;
}

/** Prints a failure (JSON on standard output with `--json`, else words on standard error) and returns the exit code. */
export function reportFailure(error: unknown, options: { json: boolean }): number {
  const described = describe(error);
  if (options.json) process.stdout.write(`${toSafeJson({ error: described }, 2)}\n`);
  else process.stderr.write(toText(described));
  return error instanceof UsageError ? EXIT.usage : EXIT.failed;
}

function describe(error: unknown): Described {
  const known = error as Partial<Described> & { stack?: string };
  if (error instanceof Error && typeof known.code === "string" && !isSystemError(error)) {
    const details = typeof known.details === "object" && known.details !== null ? { ...known.details } : {};
    return { code: known.code, message: error.message, hint: known.hint ?? null, details };
  }
  if (isSystemError(error)) {
    return {
      code: error.code ?? "system",
      message: error.message,
      hint: SYSTEM_HINTS[error.code ?? ""] ?? "Check the path and its permissions.",
      details: {},
    };
  }
  return {
    code: "internal",
    message: error instanceof Error ? error.message : String(error),
    hint: "This is a fault of Sandpool; please report it with the stack below.",
    details: { stack: known.stack ?? null },
  };
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === "string";
}

function toText(error: Described): string {
  const colors = pc.createColors(process.stderr.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== "dumb");
  const lines = [`${colors.red("sandpool:")} ${safe(error.message)} ${colors.dim(`(${safe(error.code)})`)}`];
  for (const name of ["stderr_tail", "traceback", "stack"]) {
    const text = error.details[name];
    if (typeof text === "string" && text.trim() !== "") lines.push(indent(safeLines(text.trimEnd())));
  }
  if (error.hint !== null) lines.push(`  ${colors.bold("do:")} ${safe(error.hint)}`);
  return `${lines.join("\n")}\n`;
}

function indent(text: string): string {
  return text.replace(/^/gm, "  | ");
}
