import { isScalarDtype, isWireDtype, itemBytesOf, viewAsTypedArray } from "./dtypes.ts";
import { parseJson } from "./json.ts";
import { NdArray } from "./ndarray.ts";
import { GraphInstance, Tuple, type Value } from "./types.ts";

// The protocol allows 64 levels in a row; the client's own limit leaves room for the columns around them.
const DEPTH_LIMIT = 80;

/**
 * Turns the wire's tagged JSON (`$nd`, `$tuple`, `$bytes`, `$float`, `$graph`) into values. Arrays become `NdArray`, numpy
 * scalars plain numbers. A tag whose content is not what the protocol says stays the plain object it was, so that one
 * environment that sends nonsense never costs its neighbours their batch. Evaluates nothing.
 */
export function decodeValue(tagged: unknown, depth = 0): Value {
  if (tagged === null || typeof tagged !== "object") return tagged as Value;
  if (depth > DEPTH_LIMIT) return null;
  if (Array.isArray(tagged)) return tagged.map((item) => decodeValue(item, depth + 1));
  const keys = Object.keys(tagged);
  const first = keys[0];
  if (keys.length === 1 && first !== undefined && first.startsWith("$") && !first.startsWith("$$")) {
    const value = decodeTag(first, (tagged as Record<string, unknown>)[first], depth);
    if (value !== undefined) return value;
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

function decodeTag(tag: string, payload: unknown, depth: number): Value | undefined {
  switch (tag) {
    case "$nd":
      return decodeArray(payload);
    case "$tuple":
      if (!Array.isArray(payload)) break;
      return Tuple.fromItems(payload.map((item) => decodeValue(item, depth + 1)));
    case "$bytes":
      return decodeBase64(payload) ?? undefined;
    case "$float":
      if (payload === "nan") return Number.NaN;
      if (payload === "inf") return Number.POSITIVE_INFINITY;
      if (payload === "-inf") return Number.NEGATIVE_INFINITY;
      break;
    case "$graph": {
      if (!isGraph(payload)) break;
      const graph = payload;
      const [nodes, edges, links] = [graph.nodes, graph.edges, graph.edge_links].map((part) =>
        decodeValue(part ?? null, depth + 1),
      );
      return new GraphInstance(nodes ?? null, edges ?? null, links ?? null);
    }
  }
  return undefined;
}

function decodeArray(payload: unknown): Value | undefined {
  if (!Array.isArray(payload) || payload.length !== 3) return undefined;
  const [dtype, shape, base64] = payload as [unknown, unknown, unknown];
  const bytes = decodeBase64(base64);
  if (typeof dtype !== "string" || !isWireDtype(dtype) || !isShape(shape) || bytes === null) return undefined;
  const expectedBytes = itemBytesOf(dtype) * shape.reduce((product, length) => product * length, 1);
  if (bytes.length !== expectedBytes) return undefined;
  const array = new NdArray(dtype, shape, viewAsTypedArray(dtype, bytes));
  return shape.length === 0 && isScalarDtype(dtype) ? array.item() : array;
}

/** Null for what is no base64; Node's own decoder skips what it does not know. */
function decodeBase64(text: unknown): Buffer | null {
  if (typeof text !== "string" || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  return Buffer.from(text, "base64");
}

function isGraph(value: unknown): value is { nodes: unknown; edges: unknown; edge_links: unknown } {
  return typeof value === "object" && value !== null && "nodes" in value && "edges" in value && "edge_links" in value;
}

function isShape(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((length) => Number.isSafeInteger(length) && length >= 0);
}
