import { SandpoolError } from "@sandpool/protocol";

/** The parts of a validator's error that a message needs. */
export interface SchemaFault {
  keyword?: string;
  instancePath: string;
  message?: string;
  params?: unknown;
}

/**
 * `invalid_request` that names the first faulty member, the value received and what was expected.
 *
 * @example "n is 0, must be >= 1"
 */
export function explainInvalid(faults: readonly SchemaFault[], value: unknown, part = "body"): SandpoolError {
  const told = faults.filter((fault) => fault.keyword !== "boolean" && fault.keyword !== "anyOf");
  const path = deepest(told);
  const expected = alternatives(told.filter((fault) => fault.instancePath === path).map(describe));
  const name = path === "" ? `the ${part}` : path.slice(1).replaceAll("/", ".");
  return new SandpoolError(
    "invalid_request",
    `${name} is ${show(valueAt(value, path))}, ${expected || "out of form"}`,
    {
      hint: "/openapi.json has every member with its type and range",
      details: { faults: told.slice(0, 8).map((fault) => ({ path: fault.instancePath, expected: describe(fault) })) },
    },
  );
}

/** The fault furthest inside: of a union's alternatives it is the one that was meant. */
function deepest(faults: readonly SchemaFault[]): string {
  let path = faults[0]?.instancePath ?? "";
  for (const { instancePath } of faults) if (depthOf(instancePath) > depthOf(path)) path = instancePath;
  return path;
}

function depthOf(path: string): number {
  return path.split("/").length;
}

/** `must be "a"` and `must be "b"` become `must be "a" or "b"`. */
function alternatives(expected: string[]): string {
  const lead = "must be ";
  const [first, ...others] = [...new Set(expected)];
  if (first === undefined) return "";
  return [
    first,
    ...others.map((one) => (first.startsWith(lead) && one.startsWith(lead) ? one.slice(lead.length) : one)),
  ].join(" or ");
}

function describe(fault: SchemaFault): string {
  const message = fault.message ?? "out of form";
  if (fault.keyword === "const") return `must be ${show((fault.params as { allowedValue: unknown }).allowedValue)}`;
  if (fault.keyword !== "additionalProperties") return message;
  return `must not have ${(fault.params as { additionalProperties: string[] }).additionalProperties.map(show).join(", ")}`;
}

function valueAt(value: unknown, path: string): unknown {
  let at = value;
  for (const step of path.split("/").slice(1)) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, step)) return undefined;
    at = (at as Record<string, unknown>)[step];
  }
  return at;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
