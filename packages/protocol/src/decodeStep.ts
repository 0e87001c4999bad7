import { type DecodedField, decodeBatch } from "./batch.ts";
import type { Where } from "./batches.ts";
import { dtypeItemBytes, shapeItems } from "./dtypes.ts";
import { SandpoolError } from "./errors.ts";
import type { PlainValue } from "./readMsgpack.ts";

/** `client` is only compared with the bytes around it. */
const MEMBERS = new Set(["seq", "client", "where"]);

/** A binary step request: `count` C-order actions of `dtype` and `shape` (of one action) in `data`. */
export interface DecodedStep {
  seq: number;
  where: Where;
  actions: { count: number; dtype: string; shape: number[]; data: Buffer };
}

/**
 * Decodes the body of a binary `step`; `data` is a view of it. The rows are checked against the pool by the worker.
 * Throws `invalid_request` naming what was received and expected.
 */
export function decodeStepBatch(body: Buffer): DecodedStep {
  const { map, fields } = decodeBatch(body);
  for (const key of Object.keys(map)) {
    if (!MEMBERS.has(key)) throw refuse(`the member ${JSON.stringify(key)} is unknown`);
  }
  return { seq: readSequence(map.seq), where: readWhere(map.where), actions: decodeActions(fields) };
}

/** The one field of a step message. Throws `invalid_request` unless it is a numeric array of whole C-order actions. */
export function decodeActions(fields: readonly DecodedField[]): DecodedStep["actions"] {
  const [actions] = fields;
  if (fields.length !== 1 || actions?.name !== "actions") {
    throw refuse(`the fields are ${JSON.stringify(fields.map((field) => field.name))}, expected ["actions"]`);
  }
  const { dtype, shape, data } = actions;
  const itemBytes = dtype === null ? null : dtypeItemBytes(dtype);
  if (dtype === null || itemBytes === null) throw refuse(`the dtype ${JSON.stringify(dtype)} is not accepted`);
  const [count, ...itemShape] = shape ?? [];
  const items = shapeItems(shape ?? []);
  if (count === undefined || items === null) throw refuse(`the shape is ${JSON.stringify(shape)}, expected [rows, …]`);
  if (items * itemBytes !== data.length) {
    throw refuse(`${data.length} bytes of actions, but shape [${shape}] of ${dtype} takes ${items * itemBytes}`);
  }
  return { count, dtype, shape: itemShape, data };
}

function readSequence(seq: PlainValue | undefined): number {
  if (typeof seq === "number" && Number.isInteger(seq) && seq >= 1 && seq <= 0xffffffff) return seq;
  throw refuse(`"seq" is ${JSON.stringify(seq)}, expected a batch number from 1 on`);
}

function readWhere(where: PlainValue | undefined): Where {
  if (where === null || where === undefined) return null;
  const isIndices = (list: PlainValue[]): list is number[] =>
    list.every((row) => Number.isInteger(row) && Number(row) >= 0);
  const isMask = (list: PlainValue[]): list is boolean[] => list.every((row) => typeof row === "boolean");
  if (Array.isArray(where) && (isIndices(where) || isMask(where))) return where;
  throw refuse('"where" is neither null nor a list of row indices nor a mask');
}

function refuse(message: string): SandpoolError {
  return new SandpoolError("invalid_request", `binary step: ${message}`, {
    hint: "docs/internals/http-api.md, section Batch, binary, gives the form",
  });
}
