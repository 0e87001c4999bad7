import { decodeValue, isValueObject, NdArray, type Value } from "sandpool";

export type Space =
  | { type: "Box"; dtype: string; shape: number[]; low: number[] | bigint[]; high: number[] | bigint[] }
  | { type: "Discrete"; n: number; start: number }
  | { type: "MultiDiscrete"; dtype: string; shape: number[]; nvec: number[]; start: number[] }
  | { type: "MultiBinary"; shape: number[] }
  | { type: "Text"; min: number; max: number; charset: string[] }
  | { type: "Dict"; spaces: [string, Space][] }
  | { type: "Tuple" | "OneOf"; spaces: Space[] }
  | { type: "Sequence"; space: Space; stack: boolean }
  | { type: "Graph"; node: Space; edge: Space | null }
  | { type: "Custom"; repr: string };

/** Reads an announced space from the wire; null when none was announced, `Custom` for what this program does not know. */
export function readSpace(wire: unknown): Space | null {
  return wire === null || wire === undefined ? null : toSpace(decodeValue(wire));
}

/** A space in one line, such as `Box(float32, [4])`. */
export function describeSpace(space: Space): string {
  switch (space.type) {
    case "Box":
      return `Box(${dtypeName(space.dtype)}, [${space.shape.join(", ")}])`;
    case "Discrete":
      return space.start === 0 ? `Discrete(${space.n})` : `Discrete(${space.n}, start ${space.start})`;
    case "MultiDiscrete":
      return `MultiDiscrete([${space.nvec.join(", ")}])`;
    case "MultiBinary":
      return `MultiBinary([${space.shape.join(", ")}])`;
    case "Text":
      return `Text(${space.min} to ${space.max})`;
    case "Dict":
      return `Dict(${space.spaces.map(([key, inner]) => `${key}: ${describeSpace(inner)}`).join(", ")})`;
    case "Tuple":
    case "OneOf":
      return `${space.type}(${space.spaces.map(describeSpace).join(", ")})`;
    case "Sequence":
      return `Sequence(${describeSpace(space.space)})`;
    case "Graph":
      return `Graph(${describeSpace(space.node)}, ${space.edge === null ? "no edges" : describeSpace(space.edge)})`;
    case "Custom":
      return space.repr;
  }
}

/** numpy's name of a dtype string: `float32` for `<f4`. */
export function dtypeName(dtype: string): string {
  const match = /^[<|>=]?([fiuc])(\d+)$/.exec(dtype);
  if (match === null) return dtype.replace(/^[<|]b1$/, "bool");
  const kind = { f: "float", i: "int", u: "uint", c: "complex" }[match[1] ?? ""];
  return `${kind}${Number(match[2]) * 8}`;
}

function toSpace(value: Value): Space {
  if (!isValueObject(value)) return { type: "Custom", repr: String(value) };
  const shape = integers(value.shape);
  switch (value.type) {
    case "Box":
      return {
        type: "Box",
        dtype: String(value.dtype),
        shape,
        low: bounds(value.low, value),
        high: bounds(value.high, value),
      };
    case "Discrete":
      return { type: "Discrete", n: Number(value.n), start: Number(value.start ?? 0) };
    case "MultiDiscrete":
      return toMultiDiscrete(value.nvec, value.start, String(value.dtype ?? "<i8"));
    case "MultiBinary":
      return {
        type: "MultiBinary",
        shape: integers(Array.isArray(value.n) || value.n instanceof NdArray ? value.n : [value.n ?? 0]),
      };
    case "Text":
      return { type: "Text", min: Number(value.min ?? 1), max: Number(value.max), charset: toCharset(value.charset) };
    case "Dict":
      return {
        type: "Dict",
        spaces: list(value.spaces).map((pair) => [String(list(pair)[0]), toSpace(list(pair)[1] ?? null)]),
      };
    case "Tuple":
    case "OneOf":
      return { type: value.type, spaces: list(value.spaces).map(toSpace) };
    case "Sequence":
      return { type: "Sequence", space: toSpace(value.space ?? null), stack: value.stack === true };
    case "Graph":
      return { type: "Graph", node: toSpace(value.node ?? null), edge: value.edge ? toSpace(value.edge) : null };
    default:
      return { type: "Custom", repr: typeof value.repr === "string" ? value.repr : String(value.type) };
  }
}

function toMultiDiscrete(nvec: Value | undefined, start: Value | undefined, dtype: string): Space {
  const shape = nvec instanceof NdArray ? [...nvec.shape] : [list(nvec).length];
  const counts = integers(nvec);
  const starts = start === undefined || start === null ? counts.map(() => 0) : integers(start);
  return { type: "MultiDiscrete", dtype, shape, nvec: counts, start: starts };
}

/** The bounds of every item, flat; one number stands for all of them. */
function bounds(value: Value | undefined, box: { shape?: Value }): number[] | bigint[] {
  if (value instanceof NdArray) return Array.from(value.data as ArrayLike<number>);
  const size = integers(box.shape).reduce((product, length) => product * length, 1);
  return new Array<number>(size).fill(value as number);
}

function integers(value: Value | undefined): number[] {
  if (value instanceof NdArray) return Array.from(value.data as ArrayLike<number | bigint>, Number);
  return list(value).flatMap((item) => (Array.isArray(item) ? integers(item) : [Number(item)]));
}

function toCharset(value: Value | undefined): string[] {
  if (typeof value === "string") return [...value];
  const characters = list(value).map(String);
  return characters.length > 0 ? characters : [..."abcdefghijklmnopqrstuvwxyz0123456789"];
}

function list(value: Value | undefined): Value[] {
  return Array.isArray(value) ? value : [];
}
