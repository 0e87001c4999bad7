import { BATCH_CONTENT_TYPE, type DecodedField, decodeBatch } from "@sandpool/protocol";
import { SandpoolError } from "../errors.ts";
import type { Reply } from "../http/transport.ts";
import { decodeText } from "../values/decode.ts";
import { itemBytesOf, viewAsTypedArray } from "../values/dtypes.ts";
import { NdArray, sizeOf } from "../values/ndarray.ts";
import { isValueObject, type Value, type ValueObject } from "../values/types.ts";
import type { ObservationColumns } from "./observations.ts";
import type { BatchTiming } from "./timing.ts";

/** A reply of reset, step, call or observations, or a result of the stream, decoded; columns in the order of its rows. */
export interface BatchReply {
  /** The message's members beside its fields. */
  members: Readonly<Record<string, unknown>>;
  observations: ObservationColumns | null;
  rewards: Float64Array | null;
  terminated: boolean[] | null;
  truncated: boolean[] | null;
  results: Value[] | null;
  /** By row index of the pool; rows with an empty info are absent. */
  infos: ReadonlyMap<number, ValueObject>;
  failed: readonly number[];
  timing: BatchTiming;
}

export const BATCH_ACCEPT = BATCH_CONTENT_TYPE;

/** Reads a whole binary batch. Throws `protocol_violation` when it is not one. */
export async function readBatchReply(reply: Reply): Promise<BatchReply> {
  const contentType = reply.headers["content-type"];
  const body = await reply.body.arrayBuffer();
  if (!String(contentType).startsWith(BATCH_CONTENT_TYPE)) throw violation(`content type ${contentType}`);
  return decodeReply(Buffer.from(body));
}

/** Takes a binary batch apart; arrays are views on the message. Throws `protocol_violation` when it is not one. */
export function decodeReply(message: Buffer): BatchReply {
  try {
    const { map, fields } = decodeBatch(message);
    return toReply(map, fields);
  } catch (cause) {
    if (cause instanceof SandpoolError) throw cause;
    throw violation((cause as Error).message, cause);
  }
}

/** A column of a reply, checked. Throws `protocol_violation` when it is missing or has another length. */
export function columnOf<Column extends ArrayLike<unknown>>(
  name: string,
  column: Column | null,
  count: number,
): Column {
  if (column?.length === count) return column;
  throw violation(`${column === null ? "no" : column.length} ${name} for ${count} rows`);
}

function toReply(members: Readonly<Record<string, unknown>>, fields: readonly DecodedField[]): BatchReply {
  const find = (name: string): DecodedField | undefined => fields.find((field) => field.name === name);
  const flags = (name: string): boolean[] | null => {
    const field = find(name);
    return field === undefined ? null : Array.from(field.data, (byte) => byte !== 0);
  };
  const rewards = find("rewards");
  const results = find("results");
  return {
    members,
    observations: readObservations(fields.filter((field) => field.name === "obs")),
    rewards: rewards === undefined ? null : readRewards(rewards),
    terminated: flags("terminated"),
    truncated: flags("truncated"),
    results: results === undefined ? null : readList(results),
    infos: readInfos(find("infos")),
    failed: (members.failed as number[] | undefined) ?? [],
    timing: readTiming(members.timing),
  };
}

function readObservations(fields: readonly DecodedField[]): ObservationColumns | null {
  const [first] = fields;
  if (first === undefined) return null;
  if (first.json) return { kind: "list", values: readList(first) };
  const ordered = fields.toSorted((left, right) => (left.field ?? 0) - (right.field ?? 0));
  return { kind: "array", fields: ordered.map(toArray) };
}

/** In memory of their own: the caller may keep and change them. */
function readRewards(field: DecodedField): Float64Array {
  if (field.dtype !== "<f8") throw violation(`rewards of dtype ${field.dtype}`);
  return toArray(field).data.slice() as Float64Array;
}

function toArray({ name, dtype, shape, data }: DecodedField): NdArray {
  if (dtype === null || shape === null) throw violation(`the field ${name} without dtype and shape`);
  if (data.length !== itemBytesOf(dtype) * sizeOf(shape)) throw violation(`the field ${name} of another length`);
  return new NdArray(dtype, shape, viewAsTypedArray(dtype, data));
}

function readList(field: DecodedField): Value[] {
  const values = decodeText(field.data.toString("utf8"));
  if (!Array.isArray(values)) throw violation(`the field ${field.name} that is not a list`);
  return values;
}

function readInfos(field: DecodedField | undefined): Map<number, ValueObject> {
  const infos = field === undefined || field.data.length <= 2 ? {} : decodeText(field.data.toString("utf8"));
  if (!isValueObject(infos)) throw violation("infos that are not an object keyed by row");
  // An info that is itself a tag that decoded to something else is kept, under a name of its own.
  const asObject = (info: Value): ValueObject => (isValueObject(info) ? info : { sandpool_info: info });
  return new Map(Object.entries(infos).map(([row, info]) => [Number(row), asObject(info)]));
}

/** The figures of a reply; NaN where it has none. */
export function readTiming(value: unknown): BatchTiming {
  const timing = (value ?? {}) as Record<string, unknown>;
  return {
    workerMs: typeof timing.worker_ms === "number" ? timing.worker_ms : Number.NaN,
    slowestMs: typeof timing.slowest_ms === "number" ? timing.slowest_ms : Number.NaN,
    slowestRow: typeof timing.slowest_row === "number" ? timing.slowest_row : null,
    stragglers: Array.isArray(timing.stragglers) ? (timing.stragglers as number[]) : [],
  };
}

function violation(received: string, cause?: unknown): SandpoolError {
  return new SandpoolError(
    "protocol_violation",
    `The server sent a batch with ${received}; expected ${BATCH_CONTENT_TYPE}.`,
    {
      cause,
      hint: "Update the client and the server to the same version.",
    },
  );
}
