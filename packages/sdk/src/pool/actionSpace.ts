import { ArgumentError } from "../errors.ts";
import { decodeValue } from "../values/decode.ts";
import { describe } from "../values/describe.ts";
import { NdArray } from "../values/ndarray.ts";
import { isValueObject, type Value } from "../values/types.ts";
import type { Selection } from "./selection.ts";

/** What an announced action space says of an array of actions. */
export interface ActionSpace {
  type: string;
  /** The shape of one action; null where actions are no arrays of numbers. */
  shape: readonly number[] | null;
  isIntegral: boolean;
  /** The keys of a Dict space. */
  names: readonly string[];
  /** How many spaces a Dict or Tuple space has. */
  count: number;
}

/** Reads the announced action space of a description; null when none was announced. */
export function readActionSpace(wire: unknown): ActionSpace | null {
  const space = decodeValue(wire ?? null);
  if (!isValueObject(space) || typeof space.type !== "string") return null;
  const { type } = space;
  const parts = Array.isArray(space.spaces) ? space.spaces : [];
  const names = type === "Dict" ? parts.map((pair) => String(Array.isArray(pair) ? pair[0] : pair)) : [];
  return { type, shape: shapeOf(space), isIntegral: isIntegral(space), names, count: parts.length };
}

/** The shape of one action; null where actions are no arrays of numbers, or nothing is known of them. */
export function itemShapeOf(space: ActionSpace | null): readonly number[] | null {
  return space?.shape ?? null;
}

/** Refuses an array of actions whose shape or dtype is not that of the space. */
export function checkArray(space: ActionSpace | null, actions: NdArray): void {
  if (space === null || space.shape === null) return;
  const expected = [actions.shape[0], ...space.shape].join(", ");
  if (actions.shape.join(", ") !== expected) {
    throw new ArgumentError(
      `actions has shape [${actions.shape.join(", ")}]; expected [${expected}] for the action space ${space.type}.`,
    );
  }
  const kind = actions.dtype[1];
  if (kind === "c" || (space.isIntegral && kind === "f")) {
    throw new ArgumentError(
      `actions has dtype ${actions.dtype}; expected integers for the action space ${space.type}.`,
      { hint: "Round them yourself, e.g. Int32Array.from(actions, Math.round)." },
    );
  }
}

/**
 * Refuses text, and what else is plainly no number of the space, in a list of the selected rows' actions; gives the list. Numbers
 * in other forms than arrays are the pool's to judge.
 */
export function checkItems<Item>(
  space: ActionSpace | null,
  actions: readonly Item[],
  { rows }: Selection,
): readonly Item[] {
  if (space === null || space.shape === null) return actions;
  const place = actions.findIndex((action) => !mayBeNumbers(action, space));
  if (place === -1) return actions;
  const expected = `${space.isIntegral ? "integers" : "numbers"} for the action space ${space.type}`;
  throw new ArgumentError(
    `The action of row ${rows?.[place] ?? place} is ${inWords(actions[place])}; expected ${expected}.`,
    {
      hint: "Nothing was sent.",
    },
  );
}

function mayBeNumbers(action: unknown, space: ActionSpace): boolean {
  if (typeof action === "string" || Buffer.isBuffer(action)) return false;
  if (typeof action === "number") return !space.isIntegral || Number.isInteger(action);
  if (action instanceof Float16Array || action instanceof Float32Array || action instanceof Float64Array) {
    return !space.isIntegral;
  }
  if (action instanceof NdArray) return !(space.isIntegral ? "fc" : "c").includes(action.dtype[1] ?? "");
  return !Array.isArray(action) || action.every((item) => mayBeNumbers(item, space));
}

function inWords(action: unknown): string {
  return Array.isArray(action) ? `the list ${JSON.stringify(action).slice(0, 80)}` : describe(action);
}

function shapeOf(space: { [key: string]: Value }): readonly number[] | null {
  switch (space.type) {
    case "Discrete":
      return [];
    case "Box":
      return integers(space.shape);
    case "MultiBinary":
      return integers(typeof space.n === "number" ? [space.n] : space.n);
    case "MultiDiscrete":
      return space.nvec instanceof NdArray ? space.nvec.shape : listShape(space.nvec ?? null);
    default:
      return null;
  }
}

function isIntegral(space: { [key: string]: Value }): boolean {
  return space.type !== "Box" || "iub".includes(String(space.dtype ?? "<f4")[1] ?? "f");
}

function integers(value: Value | undefined): number[] {
  if (value instanceof NdArray) return Array.from(value.data as ArrayLike<number | bigint>, Number);
  return Array.isArray(value) ? value.map(Number) : [];
}

function listShape(value: Value): number[] {
  return Array.isArray(value) ? [value.length, ...listShape(value[0] ?? null)] : [];
}
