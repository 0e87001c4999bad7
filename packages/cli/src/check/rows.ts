import { isValueObject, NdArray, Tuple, type Value } from "sandpool";

/** One row of a batch of observations: of an array, a dict or tuple of arrays, or a list of values. */
export function observationOf(batch: Value, row: number): Value {
  if (batch instanceof NdArray) {
    const array = batch.row(row);
    return array.shape.length === 0 ? array.item() : array;
  }
  if (batch instanceof Tuple) return Tuple.fromItems(batch.map((part) => observationOf(part, row)));
  if (Array.isArray(batch)) return batch[row] ?? null;
  if (isValueObject(batch)) {
    return Object.fromEntries(Object.entries(batch).map(([key, part]) => [key, observationOf(part, row)]));
  }
  return batch;
}
