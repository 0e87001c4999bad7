import { ArgumentError } from "../errors.ts";
import { describe } from "./describe.ts";
import type { dtypeOf } from "./dtypes.ts";
import { rawJson } from "./json.ts";
import { NdArray } from "./ndarray.ts";
import { GraphInstance, isValueObject, Tuple } from "./types.ts";

// The protocol allows 64 levels in a row; the columns and the tags around a value take some.
const DEPTH_LIMIT = 60;

/**
 * Turns a value into the wire's tagged JSON, ready for `JSON.stringify`. Typed arrays become `$nd`, `Buffer` becomes `$bytes`,
 * bigints and non-finite numbers stay exact. Throws `ArgumentError` naming the place of what cannot be sent.
 */
export function encodeValue(value: unknown, path = "value", depth = 0): unknown {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") return encodeNumber(value);
  if (typeof value === "bigint") return rawJson(value.toString());
  if (typeof value !== "object") throw unsendable(value, path);
  if (value instanceof NdArray) return encodeArray(value);
  if (depth >= DEPTH_LIMIT) {
    throw new ArgumentError(`${path.slice(0, 100)}… is nested deeper than ${DEPTH_LIMIT} levels; expected fewer.`);
  }
  if (Buffer.isBuffer(value)) return { $bytes: value.toString("base64") };
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return encodeArray(NdArray.from(value as Parameters<typeof dtypeOf>[0]));
  }
  if (value instanceof GraphInstance) {
    const { nodes, edges, edgeLinks } = value;
    return {
      $graph: {
        nodes: encodeValue(nodes, `${path}.nodes`, depth + 2),
        edges: encodeValue(edges, `${path}.edges`, depth + 2),
        edge_links: encodeValue(edgeLinks, `${path}.edgeLinks`, depth + 2),
      },
    };
  }
  if (Array.isArray(value)) {
    const items = Array.from(value, (item, index) => encodeValue(item, `${path}[${index}]`, depth + 1));
    return value instanceof Tuple ? { $tuple: items } : items;
  }
  if (!isValueObject(value)) throw unsendable(value, path);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key.startsWith("$") ? `$${key}` : key, encodeValue(item, `${path}.${key}`, depth + 1)]),
  );
}

function encodeNumber(value: number): unknown {
  if (Number.isNaN(value)) return { $float: "nan" };
  if (!Number.isFinite(value)) return { $float: value > 0 ? "inf" : "-inf" };
  // A large float written as digits would come back, here and in Python, as an exact integer it never was.
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return rawJson(value.toExponential());
  return Object.is(value, -0) ? rawJson("-0.0") : value;
}

function encodeArray(array: NdArray): unknown {
  const bytes = array.toBytes();
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  return { $nd: [array.dtype, [...array.shape], base64] };
}

function unsendable(value: unknown, path: string): ArgumentError {
  return new ArgumentError(
    `${path} is ${describe(value)}; expected null, a boolean, number, bigint, text, Buffer, typed array, NdArray, list or plain object.`,
  );
}
