import { BATCH_CONTENT_TYPE, encodeBatch } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";
import { encodeValue } from "../values/encode.ts";
import { requestJson } from "../values/json.ts";
import { NdArray } from "../values/ndarray.ts";
import { isValueObject, type ValueObject } from "../values/types.ts";
import { pickRows, type Selection } from "./selection.ts";

/** Row i gets seed + i; or a list, null for a row's own rule. Whole numbers of 0 to 2^53 - 1. */
export type Seeds = number | null | readonly (number | null)[];
/** One object for all rows, or a list with one a row. */
export type RowOptions = ValueObject | null | readonly (ValueObject | null)[];

export interface BatchBody {
  body: string | Uint8Array;
  contentType: string;
}

/** What every batch begins with; `client` keeps two pool objects' requests apart. */
export interface BatchNumber {
  seq: number;
  client: string;
}

/** Makes the body for a batch number. */
export type Encode = (number: BatchNumber) => BatchBody;

/** A step with actions as `readActions` gives them: one buffer for an array, JSON for a list. */
export function stepRequest(actions: NdArray | readonly unknown[], { rows }: Selection): Encode {
  if (actions instanceof NdArray) {
    return (number) => {
      const { chunks, length } = encodeBatch({ ...number, where: rows }, [actionsField(actions)]);
      return { body: Buffer.concat(chunks, length), contentType: BATCH_CONTENT_TYPE };
    };
  }
  const encoded = actions.map((action, place) => encodeValue(action, `actions[${place}]`));
  return (number) => ({
    body: JSON.stringify({ ...number, actions: encoded, where: rows }),
    contentType: "application/json",
  });
}

/** The field of a binary message that holds actions. */
export function actionsField({ dtype, shape, data }: NdArray): {
  name: string;
  dtype: string;
  shape: readonly number[];
  data: Buffer[];
} {
  return { name: "actions", dtype, shape, data: [Buffer.from(data.buffer, data.byteOffset, data.byteLength)] };
}

/** A request of members that were checked and encoded. */
export function jsonRequest(members: object): Encode {
  return (number) => ({ body: requestJson({ ...number, ...members }), contentType: "application/json" });
}

/** The seeds of the selected rows in index order, or one for all. */
export function readSeeds(seed: Seeds | undefined, selection: Selection, n: number): Seeds {
  if (Array.isArray(seed)) {
    for (const [place, item] of seed.entries()) checkSeed(`seed[${place}]`, item);
    return pickRows<number | null>("seed", seed, selection, n);
  }
  checkSeed("seed", seed ?? null);
  return seed ?? null;
}

/** The options of the selected rows in index order, or one for all, encoded. */
export function readOptions(options: RowOptions | undefined, selection: Selection, n: number): unknown {
  checkObjects("options", options ?? null);
  if (!Array.isArray(options)) return encodeValue(options ?? null, "options");
  return pickRows("options", options, selection, n).map((item, place) => encodeValue(item, `options[${place}]`));
}

export function checkHard(hard: unknown): boolean {
  if (hard === undefined || typeof hard === "boolean") return hard ?? false;
  throw new ArgumentError(`hard is ${describe(hard)}; expected true or false.`);
}

/** Checks null, one plain object for all rows, or a list of plain objects and nulls. */
export function checkObjects(name: string, value: unknown): void {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  const place = items.findIndex((item) => item !== null && !isValueObject(item));
  if (place === -1) return;
  const where = Array.isArray(value) ? `${name}[${place}]` : name;
  throw new ArgumentError(`${where} is ${describe(items[place])}; expected a plain object or null.`);
}

/** Checks a positive, finite time; null and undefined are none. */
export function checkDuration(name: string, value: unknown): void {
  if (value === null || value === undefined) return;
  if (typeof value === "number" && value > 0 && Number.isFinite(value)) return;
  throw new ArgumentError(`${name} is ${describe(value)}; expected a positive, finite number.`);
}

function checkSeed(name: string, seed: unknown): void {
  if (seed === null || (Number.isSafeInteger(seed) && (seed as number) >= 0)) return;
  throw new ArgumentError(`${name} is ${describe(seed)}; expected null or a whole number from 0 to 2^53 - 1.`);
}
