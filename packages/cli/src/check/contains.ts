import { GraphInstance, isValueObject, NdArray, type Value } from "sandpool";
import { describeSpace, dtypeName, type Space } from "./spaces.ts";

/** Where and why a value is outside its space, such as `observation[2]: 1.5 is above 1`; null when it is inside. */
export function findOutside(space: Space, value: Value, path: string): string | null {
  switch (space.type) {
    case "Box":
      return outsideBox(space, value, path);
    case "Discrete":
      return outsideInteger(value, space.start, space.n, path);
    case "MultiDiscrete":
      return outsideShape(value, space.shape, path) ?? outsideCounts(space, flatten(value), path);
    case "MultiBinary":
      return (
        outsideShape(value, space.shape, path) ??
        firstOutside(flatten(value), (item, place) => outsideInteger(item, 0, 2, `${path}[${place}]`))
      );
    case "Text":
      return outsideText(space, value, path);
    case "Dict":
      return outsideDict(space, value, path);
    case "Tuple":
      return outsideTuple(space.spaces, value, path);
    case "OneOf":
      return outsideOneOf(space.spaces, value, path);
    case "Sequence":
      return firstOutside(items(value), (item, place) => findOutside(space.space, item, `${path}[${place}]`));
    case "Graph":
      return outsideGraph(space, value, path);
    case "Custom":
      return null;
  }
}

/** True when nothing of the space can be checked, or a part of it cannot. */
export function hasCustomPart(space: Space): boolean {
  if (space.type === "Custom") return true;
  if (space.type === "Dict") return space.spaces.some(([, inner]) => hasCustomPart(inner));
  if (space.type === "Tuple" || space.type === "OneOf") return space.spaces.some(hasCustomPart);
  if (space.type === "Sequence") return hasCustomPart(space.space);
  return space.type === "Graph" && (hasCustomPart(space.node) || (space.edge !== null && hasCustomPart(space.edge)));
}

function outsideBox(space: Extract<Space, { type: "Box" }>, value: Value, path: string): string | null {
  const misshapen = outsideShape(value, space.shape, path);
  if (misshapen !== null) return misshapen;
  return firstOutside(flatten(value), (item, place) => {
    const where = space.shape.length === 0 ? path : `${path}[${unravel(place, space.shape).join(", ")}]`;
    if (typeof item !== "number" && typeof item !== "bigint") return `${where}: ${describeValue(item)} is not a number`;
    if (Number.isNaN(item)) return `${where}: NaN is in no Box`;
    const low = space.low[place] as number | bigint;
    const high = space.high[place] as number | bigint;
    if (item < low) return `${where}: ${item} is below ${low}`;
    return item > high ? `${where}: ${item} is above ${high}` : null;
  });
}

function outsideInteger(value: Value, start: number, count: number, path: string): string | null {
  const number =
    typeof value === "bigint" || typeof value === "boolean"
      ? Number(value)
      : value instanceof NdArray && value.size === 1
        ? Number(value.item())
        : value;
  if (typeof number !== "number" || !Number.isInteger(number))
    return `${path}: ${describeValue(value)} is not a whole number`;
  const inside = number >= start && number < start + count;
  return inside ? null : `${path}: ${number} is outside ${start} to ${start + count - 1}`;
}

function outsideCounts(
  space: Extract<Space, { type: "MultiDiscrete" }>,
  flat: readonly Value[],
  path: string,
): string | null {
  return firstOutside(flat, (item, place) =>
    outsideInteger(item, space.start[place] ?? 0, space.nvec[place] ?? 0, `${path}[${place}]`),
  );
}

function outsideText(space: Extract<Space, { type: "Text" }>, value: Value, path: string): string | null {
  if (typeof value !== "string") return `${path}: ${describeValue(value)} is not text`;
  const characters = [...value];
  if (characters.length < space.min || characters.length > space.max) {
    return `${path}: ${characters.length} characters, outside ${space.min} to ${space.max}`;
  }
  const stranger = characters.find((character) => !space.charset.includes(character));
  return stranger === undefined ? null : `${path}: the character ${JSON.stringify(stranger)} is not in the charset`;
}

function outsideDict(space: Extract<Space, { type: "Dict" }>, value: Value, path: string): string | null {
  if (!isValueObject(value)) return `${path}: ${describeValue(value)} is not a dict`;
  const expected = space.spaces.map(([key]) => key);
  const extra = Object.keys(value).find((key) => !expected.includes(key));
  if (extra !== undefined) return `${path}: the key ${JSON.stringify(extra)} is not in the space`;
  return firstOutside(space.spaces, ([key, inner]) =>
    value[key] === undefined
      ? `${path}: the key ${JSON.stringify(key)} is missing`
      : findOutside(inner, value[key], `${path}.${key}`),
  );
}

function outsideTuple(spaces: readonly Space[], value: Value, path: string): string | null {
  const parts = items(value);
  if (parts.length !== spaces.length) return `${path}: ${parts.length} parts, expected ${spaces.length}`;
  return firstOutside(spaces, (inner, place) => findOutside(inner, parts[place] ?? null, `${path}[${place}]`));
}

function outsideOneOf(spaces: readonly Space[], value: Value, path: string): string | null {
  const [index, chosen] = items(value);
  const inner = spaces[Number(index)];
  if (inner === undefined) return `${path}: ${describeValue(value)} is not (index, value) of ${spaces.length} spaces`;
  return findOutside(inner, chosen ?? null, `${path}[1]`);
}

function outsideGraph(space: Extract<Space, { type: "Graph" }>, value: Value, path: string): string | null {
  if (!(value instanceof GraphInstance)) return `${path}: ${describeValue(value)} is not a GraphInstance`;
  const nodes = firstOutside(items(value.nodes), (node, place) =>
    findOutside(space.node, node, `${path}.nodes[${place}]`),
  );
  if (nodes !== null || value.edges === null) return nodes;
  const { edge } = space;
  if (edge === null) return `${path}.edges: present, but ${describeSpace(space)} has none`;
  return firstOutside(items(value.edges), (item, place) => findOutside(edge, item, `${path}.edges[${place}]`));
}

function outsideShape(value: Value, shape: readonly number[], path: string): string | null {
  const received = shapeOf(value);
  const same =
    received !== null && received.length === shape.length && received.every((length, axis) => length === shape[axis]);
  return same ? null : `${path}: ${describeValue(value)}, expected the shape [${shape.join(", ")}]`;
}

function shapeOf(value: Value): readonly number[] | null {
  if (value instanceof NdArray) return value.shape;
  if (!Array.isArray(value)) return [];
  const inner = value.map(shapeOf);
  const [first] = inner;
  if (first === undefined) return [0];
  return first !== null && inner.every((shape) => shape?.join() === first.join()) ? [value.length, ...first] : null;
}

function flatten(value: Value): Value[] {
  if (value instanceof NdArray) return Array.from(value.data as ArrayLike<number | bigint>);
  return Array.isArray(value) ? value.flatMap(flatten) : [value];
}

function items(value: Value): Value[] {
  if (value instanceof NdArray && value.shape.length > 0) {
    return Array.from({ length: value.shape[0] ?? 0 }, (_, place) => scalarOrArray(value.row(place)));
  }
  return Array.isArray(value) ? value : [];
}

function scalarOrArray(array: NdArray): Value {
  return array.shape.length === 0 ? array.item() : array;
}

function firstOutside<Item>(list: readonly Item[], check: (item: Item, place: number) => string | null): string | null {
  for (const [place, item] of list.entries()) {
    const reason = check(item, place);
    if (reason !== null) return reason;
  }
  return null;
}

function unravel(place: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  let rest = place;
  for (const length of shape.toReversed()) {
    index.unshift(rest % length);
    rest = Math.floor(rest / length);
  }
  return index;
}

/** A value's type in a few words: `float32 array [4]`, `dict(a: number)`, `text of 5`. */
export function describeValue(value: Value): string {
  if (value === null) return "null";
  if (value instanceof NdArray) return `${dtypeName(value.dtype)} array [${value.shape.join(", ")}]`;
  if (value instanceof GraphInstance) return "graph";
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (Array.isArray(value)) return `${value.constructor.name === "Tuple" ? "tuple" : "list"} of ${value.length}`;
  if (typeof value === "string") return `text of ${value.length}`;
  if (typeof value === "object") {
    const parts = Object.entries(value).map(([key, item]) => `${key}: ${describeValue(item)}`);
    return parts.length === 0 ? "empty dict" : `dict(${parts.join(", ")})`;
  }
  return typeof value === "bigint" ? "integer" : typeof value;
}
