import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";

/** What `run` knows: the interpreter inside, its option for code given as an argument, and the ending of a file. */
const LANGUAGES = {
  python: { interpreter: "python3", option: "-c", ending: "py" },
  node: { interpreter: "node", option: "-e", ending: "cjs" },
  bash: { interpreter: "bash", option: "-c", ending: "bash" },
  sh: { interpreter: "sh", option: "-c", ending: "sh" },
} as const;

export type Language = keyof typeof LANGUAGES;

// The kernel takes 128 KiB an argument.
const ARGUMENT_LIMIT_BYTES = 100 * 1024;

/** How code is run: as an argument, or from a file where it is too long for one. */
export type Program =
  | { kind: "argument"; argv: readonly string[] }
  | { kind: "file"; ending: string; interpreter: string };

export function toProgram(code: string, language: Language): Program {
  if (typeof code !== "string") throw new ArgumentError(`code is ${describe(code)}; expected a string.`);
  if (!Object.hasOwn(LANGUAGES, language)) {
    const known = Object.keys(LANGUAGES).join(", ");
    throw new ArgumentError(`language is ${describe(language)}; expected one of ${known}.`);
  }
  const { interpreter, option, ending } = LANGUAGES[language];
  const isShort = Buffer.byteLength(code) <= ARGUMENT_LIMIT_BYTES;
  return isShort ? { kind: "argument", argv: [interpreter, option, code] } : { kind: "file", ending, interpreter };
}
