import { UsageError } from "../../output/failure.ts";

/** One end of a copy. */
export type Location =
  | { kind: "stream" }
  | { kind: "local"; path: string }
  | { kind: "inside"; machine: string; path: string };

const INSIDE = /^([a-z][a-z0-9-]{0,39}):(.*)$/s;

/** `NAME:/PATH` is inside a machine, `-` standard input or output, all else local; a local name with a colon is written `./a:b`. */
export function readLocation(text: string): Location {
  if (text === "-") return { kind: "stream" };
  const match = INSIDE.exec(text);
  if (match === null) return { kind: "local", path: text };
  const [, machine = "", path = ""] = match;
  if (path.startsWith("/") && !path.includes("\0")) return { kind: "inside", machine, path };
  throw new UsageError(
    `${JSON.stringify(text)} has the path ${JSON.stringify(path)} in the machine ${machine}; expected an absolute one.`,
    `Write ${machine}:/PATH; a local file of that name is ./${text}.`,
  );
}
