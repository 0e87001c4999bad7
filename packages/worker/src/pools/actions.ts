import { dtypeItemBytes, shapeItems } from "@sandpool/protocol";
import { fail } from "../fail.ts";
import type { StepInput } from "../worker.ts";
import { pickElements } from "./rows/raw-json.ts";
import type { Selection, ShardSelection } from "./rows/select.ts";

/** A step's actions on their way to the agents: in index order, never parsed. */
export interface ActionPayload {
  /** The member `actions` of an agent's head, as JSON text. */
  form: string;
  bodyFor(part: ShardSelection): Buffer;
  /** Only the actions at these positions of the request, in index order; their offset is 0. */
  subset(positions: readonly number[]): Buffer;
}

/** @throws `invalid_request` where the bytes are not `count` items of the dtype and shape */
export function preparePayload(
  { actions, rawBody }: Pick<StepInput, "actions" | "rawBody">,
  selection: Selection,
): ActionPayload {
  if (actions.kind === "json") {
    const body = selection.order === null ? rawBody : pickElements(rawBody, "actions", selection.order);
    return {
      form: '{"kind":"json"}',
      bodyFor: () => body,
      subset: (positions) => pickElements(body, "actions", positions),
    };
  }
  const { dtype, shape } = actions;
  const itemBytes = actionBytes(dtype, shape);
  if (actions.data.length !== itemBytes * actions.count) {
    throw fail(
      "invalid_request",
      `actions: received ${actions.data.length} bytes; ${actions.count} actions of ${itemBytes} bytes each were expected.`,
    );
  }
  const data = selection.order === null ? actions.data : gatherItems(actions.data, itemBytes, selection.order);
  return {
    form: `{"kind":"array","dtype":"${dtype}","shape":[${shape.join(",")}]}`,
    bodyFor: (part) => data.subarray(part.offset * itemBytes, (part.offset + part.count) * itemBytes),
    subset: (positions) => gatherItems(data, itemBytes, positions),
  };
}

function actionBytes(dtype: string, shape: readonly number[]): number {
  const itemBytes = dtypeItemBytes(dtype);
  const items = shapeItems(shape);
  if (itemBytes !== null && items !== null) return itemBytes * items;
  throw fail(
    "invalid_request",
    `actions: received the dtype ${JSON.stringify(dtype)} and shape ${JSON.stringify(shape)}, which no array can have.`,
    {
      hint: 'Send a little-endian numpy dtype such as "<i8".',
    },
  );
}

function gatherItems(data: Buffer, itemBytes: number, positions: readonly number[]): Buffer {
  const gathered = Buffer.allocUnsafe(positions.length * itemBytes);
  for (const [to, from] of positions.entries())
    data.copy(gathered, to * itemBytes, from * itemBytes, (from + 1) * itemBytes);
  return gathered;
}
