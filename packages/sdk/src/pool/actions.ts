import { BATCH_CONTENT_TYPE, encodeBatch } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import type { dtypeOf } from "../values/dtypes.ts";
import { encodeValue } from "../values/encode.ts";
import { NdArray } from "../values/ndarray.ts";
import type { Value } from "../values/types.ts";
import type { BatchBody, BatchNumber } from "./batches.ts";
import { pickRows, type Selection } from "./selection.ts";

/** Actions of a step: a list with one value a selected row, or one array whose first axis is the selected rows. */
export type Actions = readonly Value[] | NdArray | Parameters<typeof dtypeOf>[0];

/** Checks the actions now; the returned function makes the body for a batch number: one buffer for an array, JSON for a list. */
export function encodeStep(actions: Actions, selection: Selection, n: number): (number: BatchNumber) => BatchBody {
  const array = toArray(actions);
  if (array !== null) {
    const data = selectedBytes(array, selection, n);
    return (number) => encodeArrayStep(number, array, data, selection);
  }
  const selected = pickRows("actions", actions as readonly Value[], selection, n);
  const encoded = selected.map((action, index) => encodeValue(action, `actions[${index}]`));
  return (number) => ({
    body: JSON.stringify({ ...number, actions: encoded, where: selection.rows }),
    contentType: "application/json",
  });
}

function toArray(actions: Actions): NdArray | null {
  if (actions instanceof NdArray) return actions;
  if (ArrayBuffer.isView(actions)) return NdArray.from(actions as Parameters<typeof dtypeOf>[0]);
  if (Array.isArray(actions)) return null;
  throw new ArgumentError(`actions is a ${typeof actions}; expected a list, a typed array or an NdArray.`);
}

function encodeArrayStep(number: BatchNumber, array: NdArray, data: Buffer[], selection: Selection): BatchBody {
  const shape = [selection.count, ...array.shape.slice(1)];
  const { chunks, length } = encodeBatch({ ...number, where: selection.rows }, [
    { name: "actions", dtype: array.dtype, shape, data },
  ]);
  return { body: Buffer.concat(chunks, length), contentType: BATCH_CONTENT_TYPE };
}

function selectedBytes(array: NdArray, selection: Selection, n: number): Buffer[] {
  const places = Array.from({ length: array.shape[0] ?? 0 }, (_, place) => place);
  const picked = pickRows("actions", places, selection, n);
  if (picked === places) return [asBuffer(array)];
  return picked.map((place) => asBuffer(array.row(place)));
}

function asBuffer(array: NdArray): Buffer {
  const bytes = array.toBytes();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
