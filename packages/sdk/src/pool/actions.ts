import { dtypeItemBytes } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";
import { type ArrayData, viewAsTypedArray } from "../values/dtypes.ts";
import { NdArray, sizeOf, zeroBytes } from "../values/ndarray.ts";
import { isValueObject, Tuple, type Value, type ValueObject } from "../values/types.ts";
import { type ActionSpace, checkArray, checkItems, itemShapeOf } from "./actionSpace.ts";
import { pickRows, type Selection } from "./selection.ts";

/**
 * Actions of a step, one a selected row in the order of `where`, or one a row of the pool: a list of values; one array whose
 * first axis is the rows (a typed array is shaped by the action space); for a Dict space an object of such columns, for a
 * Tuple space a `Tuple` of them.
 */
export type Actions = readonly Action[] | NdArray | ArrayData | { readonly [key: string]: ActionColumn };

/** One row's action; a typed array is an array of one axis. */
export type Action = Value | ArrayData;

/** One column of actions for a Dict or Tuple space. */
export type ActionColumn = readonly Action[] | NdArray | ArrayData;

/**
 * The actions of the selected rows, ascending: one array where they are numbers of one dtype and shape, else a list of values.
 * Throws `ArgumentError` for a wrong count, shape or dtype.
 */
export function readActions(
  actions: Actions,
  selection: Selection,
  n: number,
  space: ActionSpace | null,
): NdArray | readonly Action[] {
  const batch = toBatch(actions, selection, n, space);
  if (!(batch instanceof NdArray)) {
    const picked = pickRows("actions", batch, selection, n);
    return stack(picked, space) ?? checkItems(space, picked, selection);
  }
  const chosen = pickFromArray(batch, selection, n);
  checkArray(space, chosen);
  return dtypeItemBytes(chosen.dtype) === null ? [...chosen.rows()] : chosen;
}

function toBatch(
  actions: Actions,
  selection: Selection,
  n: number,
  space: ActionSpace | null,
): NdArray | readonly Action[] {
  if (actions instanceof NdArray) return actions;
  if (isTypedArray(actions)) return shapeBySpace(actions, space, selection, n);
  if (actions instanceof Tuple && space?.type === "Tuple" && areColumns(actions, space, selection, n)) {
    const columns = actions.map((column) => toItems(column as ActionColumn));
    return Array.from({ length: columns[0]?.length ?? 0 }, (_, row) =>
      Tuple.fromItems(columns.map((column) => column[row] as Value)),
    );
  }
  if (Array.isArray(actions)) return actions as readonly Action[];
  if (space?.type === "Dict" && isValueObject(actions)) return rowsOfDict(actions, space);
  throw new ArgumentError(`actions is ${describe(actions)}; expected a list, a typed array or an NdArray.`, {
    hint: "For one environment write pool.step([action]).",
  });
}

/** A typed array has no shape: where the space's items have one, it holds as many items after one another. */
function shapeBySpace(data: ArrayData, space: ActionSpace | null, selection: Selection, n: number): NdArray {
  const item = itemShapeOf(space);
  const rows = data.length / sizeOf(item ?? []);
  const fits = item !== null && item.length > 0 && (rows === selection.count || rows === n);
  return NdArray.from(data, fits ? [rows, ...item] : [data.length]);
}

function pickFromArray(array: NdArray, selection: Selection, n: number): NdArray {
  const { length } = array.shape;
  if (length === 0) throw new ArgumentError(`actions is an array of shape []; expected one action a selected row.`);
  const places = Array.from({ length: array.shape[0] ?? 0 }, (_, place) => place);
  const picked = pickRows("actions", places, selection, n);
  return picked === places
    ? array
    : joinRows(
        picked.map((place) => array.row(place)),
        array.dtype,
        array.shape.slice(1),
      );
}

/** Arrays of one dtype and shape as one array; null for any other list. */
function stack(actions: readonly Action[], space: ActionSpace | null): NdArray | null {
  const arrays = actions.map((action) =>
    action instanceof NdArray ? action : isTypedArray(action) ? NdArray.from(action) : null,
  );
  const [first] = arrays;
  if (first === undefined || first === null || dtypeItemBytes(first.dtype) === null) return null;
  const alike = (array: NdArray | null): array is NdArray =>
    array?.dtype === first.dtype && array.shape.join() === first.shape.join();
  if (!arrays.every(alike)) return null;
  const stacked = joinRows(arrays, first.dtype, first.shape);
  checkArray(space, stacked);
  return stacked;
}

function joinRows(rows: readonly NdArray[], dtype: string, rowShape: readonly number[]): NdArray {
  const shape = [rows.length, ...rowShape];
  const bytes = zeroBytes(dtype, shape);
  for (const [place, row] of rows.entries()) bytes.set(row.toBytes(), place * row.data.byteLength);
  return new NdArray(dtype, shape, viewAsTypedArray(dtype, bytes));
}

function rowsOfDict(actions: object, space: ActionSpace): ValueObject[] {
  const names = space.names;
  const given = Object.keys(actions);
  if (given.length !== names.length || !names.every((name) => Object.hasOwn(actions, name))) {
    throw new ArgumentError(
      `actions has the keys ${JSON.stringify(given).slice(0, 200)}; expected those of the Dict space, ${JSON.stringify(names)}.`,
    );
  }
  const columns = names.map((name) => toItems((actions as Record<string, ActionColumn>)[name] as ActionColumn));
  const lengths = new Set(columns.map((column) => column.length));
  if (lengths.size > 1) {
    throw new ArgumentError(`actions has columns of ${[...lengths].join(" and ")} rows; expected as many in each.`);
  }
  return Array.from({ length: columns[0]?.length ?? 0 }, (_, row) =>
    Object.fromEntries(names.map((name, place) => [name, columns[place]?.[row] as Value])),
  );
}

function areColumns(actions: Tuple, space: ActionSpace, selection: Selection, n: number): boolean {
  const lengths = actions.map((column) => {
    if (column instanceof NdArray) return column.shape[0];
    return Array.isArray(column) || isTypedArray(column) ? column.length : -1;
  });
  return actions.length === space.count && lengths.every((length) => length === n || length === selection.count);
}

function toItems(column: ActionColumn): readonly Action[] {
  if (column instanceof NdArray) return [...column.rows()];
  if (isTypedArray(column)) return [...NdArray.from(column).rows()];
  if (Array.isArray(column)) return column as readonly Action[];
  throw new ArgumentError(`a column of actions is ${describe(column)}; expected a list, a typed array or an NdArray.`);
}

/** `Buffer`s are Python's bytes, no arrays. */
function isTypedArray(value: unknown): value is ArrayData {
  return ArrayBuffer.isView(value) && !(value instanceof DataView) && !Buffer.isBuffer(value);
}
