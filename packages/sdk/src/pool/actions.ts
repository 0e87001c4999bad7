import { BATCH_CONTENT_TYPE, encodeBatch } from "@sandpool/protocol";
import { ArgumentError } from "../errors.ts";
import type { dtypeOf } from "../values/dtypes.ts";
import { encodeValue } from "../values/encode.ts";
import { NdArray } from "../values/ndarray.ts";
import type { Value } from "../values/types.ts";
import { inRowOrder, type Selection } from "./selection.ts";

/** Actions of a step: a list with one value a selected row, or one array whose first axis is the selected rows. */
export type Actions = readonly Value[] | NdArray | Parameters<typeof dtypeOf>[0];

export interface StepBody {
  body: string | Uint8Array;
  contentType: string;
}

/** The request body of a step: one contiguous buffer for an array, JSON for a list. */
export function encodeStep(seq: number, actions: Actions, selection: Selection): StepBody {
  const array = toArray(actions);
  const count = array === null ? (actions as readonly Value[]).length : (array.shape[0] ?? 0);
  if (count !== selection.count) {
    throw new ArgumentError(`${count} actions for ${selection.count} selected rows; expected one a selected row.`);
  }
  if (array !== null) return encodeArrayStep(seq, array, selection);
  const ordered = inRowOrder(actions as readonly Value[], selection).map((action, index) =>
    encodeValue(action, `actions[${index}]`),
  );
  return { body: JSON.stringify({ seq, actions: ordered, where: selection.rows }), contentType: "application/json" };
}

function toArray(actions: Actions): NdArray | null {
  if (actions instanceof NdArray) return actions;
  if (ArrayBuffer.isView(actions)) return NdArray.from(actions as Parameters<typeof dtypeOf>[0]);
  if (Array.isArray(actions)) return null;
  throw new ArgumentError(`actions is a ${typeof actions}; expected a list, a typed array or an NdArray.`);
}

function encodeArrayStep(seq: number, array: NdArray, selection: Selection): StepBody {
  const field = { name: "actions", dtype: array.dtype, shape: array.shape, data: orderedBytes(array, selection) };
  const { chunks, length } = encodeBatch({ seq, where: selection.rows }, [field]);
  return { body: Buffer.concat(chunks, length), contentType: BATCH_CONTENT_TYPE };
}

function orderedBytes(array: NdArray, selection: Selection): Buffer[] {
  if (selection.order === null) return [asBuffer(array)];
  return selection.order.map((place) => asBuffer(array.row(place)));
}

function asBuffer(array: NdArray): Buffer {
  const bytes = array.toBytes();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
