import { SandpoolError } from "../errors.ts";
import { itemBytesOf, viewAsTypedArray } from "./dtypes.ts";
import { parseJson } from "./json.ts";
import { NdArray } from "./ndarray.ts";
import { GraphInstance, Tuple, type Value } from "./types.ts";

// The protocol allows 64 levels in a row; the client's own limit leaves room for the columns around them.
const DEPTH_LIMIT = 80;

/**
 * Turns the wire's tagged JSON (`$nd`, `$tuple`, `$bytes`, `$float`, `$graph`) into values. Arrays become `NdArray`, numpy
 * scalars plain numbers. Throws `SandpoolError` with code `protocol_violation` for a malformed tag; evaluates nothing.
 */
export function decodeValue(tagged: unknown, depth = 0): Value {
  if (tagged === null || typeof tagged !== "object") return tagged as Value;
  if (depth > DEPTH_LIMIT) throw malformed("a value nested deeper than 64", "at most 64 levels");
  if (Array.isArray(tagged)) return tagged.map((item) => decodeValue(item, depth + 1));
  const keys = Object.keys(tagged);
  const first = keys[0];
  if (keys.length === 1 && first !== undefined && first.startsWith("$") && !first.startsWith("$$")) {
    return decodeTag(first, (tagged as Record<string, unknown>)[first], depth);
  }
  // fromEntries defines properties, so a key "__proto__" from a sandbox stays data.
  return Object.fromEntries(
    Object.entries(tagged).map(([key, value]) => [
      key.startsWith("$$") ? key.slice(1) : key,
      decodeValue(value, depth + 1),
    ]),
  );
}

/** `decodeValue` of JSON text. */
export function decodeText(text: string): Value {
  return decodeValue(parseJson(text));
}

function decodeTag(tag: string, payload: unknown, depth: number): Value {
  switch (tag) {
    case "$nd":
      return decodeArray(payload);
    case "$tuple":
      if (!Array.isArray(payload)) break;
      return Tuple.fromItems(payload.map((item) => decodeValue(item, depth + 1)));
    case "$bytes":
      if (typeof payload !== "string") break;
      return Buffer.from(payload, "base64");
    case "$float":
      if (payload === "nan") return Number.NaN;
      if (payload === "inf") return Number.POSITIVE_INFINITY;
      if (payload === "-inf") return Number.NEGATIVE_INFINITY;
      break;
    case "$graph": {
      if (typeof payload !== "object" || payload === null) break;
      const graph = payload as { nodes?: unknown; edges?: unknown; edge_links?: unknown };
      const [nodes, edges, links] = [graph.nodes, graph.edges, graph.edge_links].map((part) =>
        decodeValue(part ?? null, depth + 1),
      );
      return new GraphInstance(nodes ?? null, edges ?? null, links ?? null);
    }
  }
  throw malformed(
    `${tag} with ${JSON.stringify(payload)?.slice(0, 80)}`,
    "one of the forms of the environment protocol",
  );
}

function decodeArray(payload: unknown): Value {
  if (!Array.isArray(payload) || payload.length !== 3)
    throw malformed("$nd without three parts", "[dtype, shape, base64]");
  const [dtype, shape, base64] = payload as [unknown, unknown, unknown];
  if (typeof dtype !== "string" || !isShape(shape) || typeof base64 !== "string") {
    throw malformed("$nd with parts of other types", "[dtype text, list of lengths, base64 text]");
  }
  const bytes = Buffer.from(base64, "base64");
  const expectedBytes = itemBytesOf(dtype) * shape.reduce((product, length) => product * length, 1);
  if (bytes.length !== expectedBytes) {
    throw malformed(
      `$nd of ${dtype} and shape [${shape.join(", ")}] with ${bytes.length} bytes`,
      `${expectedBytes} bytes`,
    );
  }
  const array = new NdArray(dtype, shape, viewAsTypedArray(dtype, bytes));
  return shape.length === 0 && /^.[fiub]/.test(dtype) ? array.item() : array;
}

function isShape(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((length) => Number.isSafeInteger(length) && length >= 0);
}

function malformed(received: string, expected: string): SandpoolError {
  return new SandpoolError("protocol_violation", `The server sent ${received}; expected ${expected}.`, {
    hint: "Update the client and the server to the same version.",
  });
}
