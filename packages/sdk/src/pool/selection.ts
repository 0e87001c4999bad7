import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";
import { isValueObject } from "../values/types.ts";

/** Which rows a call is for: a mask of n booleans, or unique row indices. */
export type Where = readonly boolean[] | readonly number[];

/** `where` alone, or with what else a call takes. */
export type WhereOption<Options extends object = { signal?: AbortSignal }> =
  | Where
  | ({ where?: Where | null } & Options)
  | null;

/** The members of a call's last argument, which may also be `where` itself. */
export function readWhereOption<Options extends object>(
  call: string,
  given: WhereOption<Options> | undefined,
  known: readonly string[] = ["signal"],
): { where: Where | null } & Partial<Options> {
  const options = isValueObject(given) ? given : { where: given ?? null };
  refuseUnknown(call, options, ["where", ...known]);
  return { ...(options as Partial<Options>), where: (options.where ?? null) as Where | null };
}

/** Refuses a misspelt member, which would silently be as if it were not given. */
export function refuseUnknown(call: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw new ArgumentError(`${call} has no option ${unknown}; expected one of ${known.join(", ")}.`);
}

/** The rows of a call, checked. `order` maps place in `rows` (ascending) to place in the caller's list. */
export interface Selection {
  /** Ascending indices, or null for all rows. */
  rows: readonly number[] | null;
  count: number;
  order: readonly number[] | null;
}

/** Checks `where` before anything is sent. */
export function selectRows(where: Where | null | undefined, n: number): Selection {
  if (where === null || where === undefined) return { rows: null, count: n, order: null };
  if (!Array.isArray(where)) {
    throw new ArgumentError(
      `where is ${describe(where)}; expected a list of row indices, or a mask of ${n} booleans, or null.`,
    );
  }
  if (where.length > 0 && where.every((item) => typeof item === "boolean"))
    return selectMask(where as readonly boolean[], n);
  return selectIndices(where as readonly number[], n);
}

/** A list given in the order of `where`, put into index order. */
function inRowOrder<Item>(items: readonly Item[], selection: Selection): readonly Item[] {
  return selection.order === null ? items : selection.order.map((place) => items[place] as Item);
}

/** A list given in index order, one item a selected row, put into the order of `where`. */
export function inCallerOrder<Item>(items: readonly Item[], { order }: Selection): Item[] {
  const ordered = [...items];
  for (const [index, place] of (order ?? []).entries()) ordered[place] = items[index] as Item;
  return ordered;
}

/** A list with one item a selected row (order of `where`) or one a row of the pool, as one a selected row in index order. */
export function pickRows<Item>(what: string, items: readonly Item[], selection: Selection, n: number): readonly Item[] {
  if (items.length === selection.count) return inRowOrder(items, selection);
  if (items.length === n && selection.rows !== null) return selection.rows.map((row) => items[row] as Item);
  const also = selection.count === n ? "" : `, or ${selection.count}, one for each selected row`;
  throw new ArgumentError(`${what} has ${items.length} items; expected ${n}, one for each row of the pool${also}.`);
}

function selectMask(mask: readonly boolean[], n: number): Selection {
  if (mask.length !== n) {
    throw new ArgumentError(`where is a mask of ${mask.length} booleans; expected ${n}, one a row.`);
  }
  const rows = mask.flatMap((selected, row) => (selected ? [row] : []));
  return { rows, count: rows.length, order: null };
}

function selectIndices(indices: readonly number[], n: number): Selection {
  const order = indices.map((_, place) => place).sort((left, right) => (indices[left] ?? 0) - (indices[right] ?? 0));
  const rows = order.map((place) => indices[place] as number);
  for (const [place, row] of rows.entries()) {
    if (!Number.isSafeInteger(row) || row < 0 || row >= n) {
      throw new ArgumentError(
        `where has ${String(row)}; expected whole numbers from 0 to ${n - 1}, or a mask of ${n} booleans.`,
      );
    }
    if (place > 0 && rows[place - 1] === row) {
      throw new ArgumentError(`where has row ${row} twice; expected every row at most once.`);
    }
  }
  return { rows, count: rows.length, order };
}
