import type { NdArray } from "./ndarray.ts";

/** A Python tuple; equal to a list in every other way. */
export class Tuple extends Array<Value> {
  /** Array methods such as `map` give plain lists. */
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  /** @example Tuple.fromItems([1, "a"]) */
  static fromItems(items: readonly Value[]): Tuple {
    const tuple = new Tuple();
    for (const item of items) tuple.push(item);
    return tuple;
  }
}

/** Gymnasium's GraphInstance. */
export class GraphInstance {
  readonly nodes: Value;
  readonly edges: Value;
  readonly edgeLinks: Value;

  constructor(nodes: Value, edges: Value, edgeLinks: Value) {
    this.nodes = nodes;
    this.edges = edges;
    this.edgeLinks = edgeLinks;
  }
}

/** Whatever an observation, action, info or result can hold. `bigint` only beyond 2^53; `Buffer` is Python's bytes. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | NdArray
  | GraphInstance
  | Value[]
  | { [key: string]: Value };

export type ValueObject = { [key: string]: Value };

/** True for a plain `{key: value}` object, false for arrays, bytes and the classes above. */
export function isValueObject(value: unknown): value is ValueObject {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
