import { ArgumentError } from "../errors.ts";
import { describe } from "./describe.ts";

/** JSON.rawJSON and the reviver's context are in Node 24 but not yet in TypeScript's es2024 library. */
interface SourceTextJson {
  rawJSON(text: string): unknown;
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
}

const sourceTextJson = JSON as unknown as SourceTextJson;

// An integer of 16 digits or more after a JSON delimiter; a fraction or exponent makes it a float, which is exact enough.
const LONG_INTEGER = /(?:^|[[,:\s])-?\d{16,}(?![\d.eE])/;

/** Parses JSON; integers beyond 2^53 become bigints instead of losing digits. */
export function parseJson(text: string): unknown {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text);
  return sourceTextJson.parse(text, (_key, value, { source }) =>
    typeof value === "number" && !Number.isSafeInteger(value) && source !== undefined && /^-?\d+$/.test(source)
      ? BigInt(source)
      : value,
  );
}

/**
 * The JSON of a request. What JSON cannot hold is refused by name: `JSON.stringify` would make null of it, and null means
 * "not given" in every member of a request.
 */
export function requestJson(request: object): string {
  return JSON.stringify(request, (key, value: unknown) => {
    const fits =
      typeof value === "number" ? Number.isFinite(value) : !["bigint", "function", "symbol"].includes(typeof value);
    if (!fits) throw new ArgumentError(`The request's member ${key} is ${describe(value)}; expected a finite number.`);
    return value;
  });
}

/** A value that `JSON.stringify` writes exactly as the text given. */
export function rawJson(text: string): unknown {
  return sourceTextJson.rawJSON(text);
}
