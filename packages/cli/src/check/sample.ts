import { GraphInstance, isValueObject, NdArray, type NestedList, Tuple, type Value } from "sandpool";
import type { Random } from "./random.ts";
import type { Space } from "./spaces.ts";

const GRAPH_NODES_LIMIT = 10;
const SEQUENCE_CONTINUES = 0.75;

/** Why actions cannot be drawn from a space, or null when they can. */
export function unsampleable(space: Space): string | null {
  if (space.type === "Custom") return `the space ${space.repr} is not one of Gymnasium's`;
  if (space.type === "Dict") return firstReason(space.spaces.map(([, inner]) => inner));
  if (space.type === "Tuple" || space.type === "OneOf") return firstReason(space.spaces);
  if (space.type === "Sequence") return unsampleable(space.space);
  if (space.type === "Graph") return firstReason(space.edge === null ? [space.node] : [space.node, space.edge]);
  return null;
}

/**
 * Draws a value as Gymnasium's `Space.sample` does: bounded intervals uniformly, half-bounded ones exponentially, unbounded
 * ones normally. `mask` is Gymnasium's action mask for Discrete and MultiDiscrete; other spaces ignore it.
 */
export function sample(space: Space, random: Random, mask: Value = null): Value {
  switch (space.type) {
    case "Box":
      return nest(sampleBox(space, random), space.shape);
    case "Discrete":
      return space.start + choose(space.n, random, mask);
    case "MultiDiscrete":
      return nest(
        space.nvec.map(
          (count, item) =>
            (space.start[item] ?? 0) + choose(count, random, Array.isArray(mask) ? (mask[item] ?? null) : null),
        ),
        space.shape,
      );
    case "MultiBinary":
      return nest(
        Array.from({ length: sizeOf(space.shape) }, () => random.below(2)),
        space.shape,
      );
    case "Text": {
      const length = space.min + random.below(space.max - space.min + 1);
      return Array.from({ length }, () => random.pick(space.charset)).join("");
    }
    case "Dict":
      return Object.fromEntries(
        space.spaces.map(([key, inner]) => [
          key,
          sample(inner, random, isValueObject(mask) ? (mask[key] ?? null) : null),
        ]),
      );
    case "Tuple":
      return Tuple.fromItems(
        space.spaces.map((inner, item) => sample(inner, random, Array.isArray(mask) ? (mask[item] ?? null) : null)),
      );
    case "OneOf": {
      const index = random.below(space.spaces.length);
      return Tuple.fromItems([index, sample(space.spaces[index] as Space, random)]);
    }
    case "Sequence":
      return sampleSequence(space, random);
    case "Graph":
      return sampleGraph(space, random);
    case "Custom":
      throw new Error(`${space.repr} cannot be sampled`);
  }
}

function firstReason(spaces: readonly Space[]): string | null {
  return spaces.map(unsampleable).find((reason) => reason !== null) ?? null;
}

function sampleBox(space: Extract<Space, { type: "Box" }>, random: Random): (number | bigint)[] {
  const kind = space.dtype.replace(/[<>|=]/, "")[0];
  const drawn: (number | bigint)[] = [];
  for (const [item, low] of (space.low as (number | bigint)[]).entries()) {
    const high = space.high[item] as number | bigint;
    if (kind === "f") drawn.push(roundTo(space.dtype, sampleReal(Number(low), Number(high), random)));
    else drawn.push(narrow(random.between(BigInt(low), BigInt(high))));
  }
  return drawn;
}

function sampleReal(low: number, high: number, random: Random): number {
  if (Number.isFinite(low) && Number.isFinite(high)) {
    const share = random.uniform();
    return low * (1 - share) + high * share;
  }
  if (Number.isFinite(low)) return low + random.exponential();
  if (Number.isFinite(high)) return high - random.exponential();
  return random.normal();
}

function roundTo(dtype: string, value: number): number {
  return dtype.endsWith("4") || dtype === "float32" ? Math.fround(value) : value;
}

function narrow(value: bigint): number | bigint {
  return BigInt.asIntN(54, value) === value ? Number(value) : value;
}

function choose(count: number, random: Random, mask: Value): number {
  const allowed =
    mask instanceof NdArray ? Array.from(mask.data as ArrayLike<number>) : Array.isArray(mask) ? mask : null;
  if (allowed === null || allowed.length !== count) return random.below(count);
  const choices = allowed.flatMap((flag, choice) => (Number(flag) === 1 ? [choice] : []));
  return choices.length === 0 ? random.below(count) : random.pick(choices);
}

function sampleSequence(space: Extract<Space, { type: "Sequence" }>, random: Random): Value {
  const items: Value[] = [];
  while (random.uniform() < SEQUENCE_CONTINUES) items.push(sample(space.space, random));
  return space.stack ? items : Tuple.fromItems(items);
}

function sampleGraph(space: Extract<Space, { type: "Graph" }>, random: Random): Value {
  const nodes = 1 + random.below(GRAPH_NODES_LIMIT);
  const edges = space.edge === null ? 0 : random.below(nodes * 2);
  if (space.edge === null || edges === 0) return new GraphInstance(sampleStack(space.node, nodes, random), null, null);
  const links = Int32Array.from({ length: edges * 2 }, () => random.below(nodes));
  const edgeLinks = new NdArray("<i4", [edges, 2], links);
  return new GraphInstance(sampleStack(space.node, nodes, random), sampleStack(space.edge, edges, random), edgeLinks);
}

/** Several samples as one array, as a graph's nodes and edges are. */
function sampleStack(space: Space, count: number, random: Random): NdArray {
  if (space.type === "Box") {
    const flat = Array.from({ length: count }, () => sampleBox(space, random))
      .flat()
      .map(Number);
    const single = space.dtype.endsWith("4");
    return new NdArray(
      single ? "<f4" : "<f8",
      [count, ...space.shape],
      single ? Float32Array.from(flat) : Float64Array.from(flat),
    );
  }
  const numbers = Array.from({ length: count }, () => BigInt(Number(sample(space, random))));
  return new NdArray("<i8", [count], BigInt64Array.from(numbers));
}

function nest(flat: readonly (number | bigint)[], shape: readonly number[]): Value {
  if (shape.length === 0) return flat[0] ?? 0;
  const [length, ...rest] = shape as [number, ...number[]];
  const stride = sizeOf(rest);
  const nested: NestedList[] = [];
  for (let item = 0; item < length; item += 1) {
    nested.push(nest(flat.slice(item * stride, (item + 1) * stride), rest) as NestedList);
  }
  return nested;
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}
