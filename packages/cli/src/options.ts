import { resolve } from "node:path";
import { InvalidArgumentError } from "commander";

/** A parser for whole numbers from `low` to `high`, for commander. */
export function wholeNumber(low: number, high: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= low && value <= high) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${low} to ${high}.`);
  };
}

/** A parser for folders: absolute, so that messages name them whatever the working directory. */
export function folder(text: string): string {
  if (text !== "") return resolve(text);
  throw new InvalidArgumentError("Expected the path of a folder.");
}
